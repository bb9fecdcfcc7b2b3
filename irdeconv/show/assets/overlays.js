// Numbers of the layers as colours on the graph: which one is shown, and what each layer has of it.

const overlays = {
  all: page.data.overlays,
  at: -1,
  scales: new Map(), // by overlay key, where the reader chose another one
  facts: new Map(),
  paints: new WeakMap(), // of boxes
  listeners: [],

  get current() {
    return this.all[this.at] ?? null;
  },

  get scale() {
    const { key, scale } = this.current;
    return this.scales.get(key) ?? scale ?? "log";
  },

  // Paints another overlay, -1 none.
  show(at) {
    this.at = at;
    this.paints = new WeakMap();
    for (const listener of this.listeners) listener();
    page.repaint();
  },

  step(by) {
    const count = this.all.length + 1;
    this.show(((this.at + 1 + by + count) % count) - 1);
    announce(this.current ? `Coloured by ${this.current.title}` : "No colours of numbers");
  },

  toggleScale() {
    if (!this.current) return;
    this.scales.set(this.current.key, this.scale === "log" ? "linear" : "log");
    this.show(this.at);
    announce(`${this.scale} scale`);
  },

  // All layers that have a number above 0, the largest first, with their sum and extremes.
  get ranked() {
    const overlay = this.current;
    if (!this.facts.has(overlay.key)) this.facts.set(overlay.key, rankedLayers(overlay));
    return this.facts.get(overlay.key);
  },

  // Goes down the list of the largest, or up again.
  walk(by) {
    if (!this.current) this.show(0);
    const { keys } = this.ranked;
    if (!keys.length) {
      announce("No layer has a number.");
      return;
    }
    const now = keys.indexOf(page.selected);
    const from = now < 0 && by < 0 ? 0 : now;
    page.select(keys[(from + by + keys.length) % keys.length], { always: true });
  },
};

// What is said of a layer, or of the same layer on the other side where it stayed as it was.
function ofLayer(map, key) {
  if (!map) return undefined;
  if (Object.hasOwn(map, key)) return map[key];
  const twin = twinOf(key);
  return twin && Object.hasOwn(map, twin) ? map[twin] : undefined;
}

// The same layer on the other side of the page, null where it changed or there is one side only.
function twinOf(key) {
  return page.node(key)?.change === "same" && roots().length > 1 ? counterpart(key) : null;
}

// The number of a layer: null where it is unknown, undefined where there is none.
function overlayValue(overlay, key) {
  const found = overlay.fact ? page.node(key)?.[overlay.fact] : ofLayer(overlay.values, key);
  return found === null || found === undefined ? found : Number(found);
}

function rankedLayers(overlay) {
  const found = [];
  let unknown = 0;
  for (const graph of page.graphs.values()) {
    for (const node of graph.nodes.values()) {
      if (node.constant || (node.key.startsWith("after") && twinOf(node.key))) continue;
      const value = overlayValue(overlay, node.key);
      if (value === null) unknown += 1;
      else if (value > 0) found.push([node.key, value]);
    }
  }
  found.sort((a, b) => b[1] - a[1]);
  const finite = found.map(([, value]) => value).filter(Number.isFinite);
  return { keys: found.map(([key]) => key), low: finite.at(-1), high: finite[0], unknown };
}

// Where a number stands between the least and the largest, from 0 to 1.
function placeInScale(value) {
  const { low, high } = overlays.ranked;
  if (value >= high || low === high) return 1;
  if (overlays.scale === "linear") return value / high;
  return Math.log(value / low) / Math.log(high / low);
}

// What is painted on a box: a number and whether it needs a look. A closed group has its largest.
function paintOf(box) {
  if (!overlays.paints.has(box)) overlays.paints.set(box, newPaint(overlays.current, box));
  return overlays.paints.get(box);
}

function newPaint(overlay, box) {
  const keys = (box.members ?? [box.key]).filter((key) => key !== null && !page.node(key).constant);
  const values = keys.map((key) => overlayValue(overlay, key)).filter((value) => value !== undefined);
  const known = values.filter((value) => value !== null);
  const value = known.length ? Math.max(...known) : values[0];
  return { value, marked: keys.some((key) => ofLayer(overlay.marks, key)) };
}

// The colour of a box, or null where nothing is painted on it.
function overlayColour(box) {
  const value = overlays.current ? paintOf(box).value : undefined;
  return value > 0 ? rampColour(placeInScale(value)) : null;
}

// A line for the tooltip of a layer.
function overlayHint(key) {
  const overlay = overlays.current;
  const text = overlay ? overlayText(overlay, overlayValue(overlay, key)) : "";
  return text ? `\n${overlay.title}: ${text}` : "";
}

// Changes whenever other colours are painted.
function overlayState() {
  return overlays.current ? `${overlays.current.key} ${overlays.scale}` : "";
}

// The number of a layer as text, "?" where it is unknown, empty where there is none.
function overlayText(overlay, value) {
  if (value === undefined || value === 0) return "";
  if (value === null) return "?";
  return value === Infinity ? "∞" : shownNumber(value, overlay.unit ?? "");
}

// Time has prefixes below 1, counts and bytes above; other units are written as they are.
function shownNumber(value, unit) {
  if (unit === "s" && value < 1) {
    const [prefix, size] = value >= 1e-3 ? ["m", 1e-3] : value >= 1e-6 ? ["µ", 1e-6] : ["n", 1e-9];
    return `${Number((value / size).toPrecision(3))} ${prefix}s`;
  }
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-3 && value !== 0)) return `${value.toExponential(1)} ${unit}`.trimEnd();
  return scaled(value, unit);
}

page.onOverlay = (listener) => overlays.listeners.push(listener);
