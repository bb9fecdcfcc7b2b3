// What became of what: the two sides of a page, linked.

const CHANGE_WORDS = {
  same: "unchanged",
  added: "added",
  rewritten: "rewritten",
  removed: "removed",
};

// The change that a layer belongs to, null where it stayed as it was.
function changeOf(key) {
  const node = page.node(key);
  return node && node.number !== null ? page.data.changes[node.number] : null;
}

// All layers of a change, on both sides, but for the one that is selected.
function relatedKeys(key) {
  const change = changeOf(key);
  if (change) return [...change.before, ...change.after].filter((other) => other !== key);
  const other = key === null ? null : counterpart(key);
  return other ? [other] : [];
}

// The layer of the other side that stands for this one: what a rewritten one became, else itself.
function counterpart(key) {
  const node = page.node(key);
  const change = changeOf(key);
  const first = key.startsWith("before") ? "after" : "before";
  if (change) {
    const others = change[first].map(page.node);
    const main = others.find((other) => other.deconvolution)
      ?? others.find((other) => other.change === "rewritten") ?? others[0];
    return main?.key ?? null;
  }
  const twin = page.node(key.replace(/^(before|after)/, first));
  if (twin && twin.name === node.name) return twin.key === key ? null : twin.key;
  return namedAlike(node, node.graph.replace(/^(before|after)/, first));
}

const keysByName = new Map(); // by graph key

// The layer of another graph with the name of this one, null where none or several have it: models
// that are compared number their layers in their own ways.
function namedAlike(node, graphKey) {
  const graph = page.graphs.get(graphKey);
  if (!graph || graphKey === node.graph) return null;
  if (!keysByName.has(graphKey)) {
    const names = new Map();
    for (const { name, key } of graph.nodes.values()) names.set(name, names.has(name) ? null : key);
    keysByName.set(graphKey, names);
  }
  return keysByName.get(graphKey).get(node.name) ?? null;
}

// What differs between a layer and the one that replaced it, as [name, before, after]. Lowering
// replaces a layer by others, whose attributes mean something else.
function differencesOf(change) {
  if (!change || change.form) return [];
  const sides = ["before", "after"].map((side) => change[side].map(page.node).filter(({ type }) => type !== "Const"));
  if (sides.some((nodes) => nodes.length !== 1)) return [];
  const facts = sides.map(([{ type, version, attributes, outputs }]) => (
    { type, version, ...attributes, output: outputs.join(", ") }));
  const names = [...new Set(facts.flatMap(Object.keys))].filter((name) => facts[0][name] !== facts[1][name]);
  return names.map((name) => [name, ...facts.map((fact) => fact[name] || "(none)")]);
}

const differenceText = ([name, before, after]) => visible(`${name} ${before} → ${after}`);

// The layer at which a change is looked at.
function startOf(change) {
  const keys = change.before.length ? change.before : change.after;
  return keys.find((key) => page.node(key).deconvolution) ?? keys[0];
}

// Goes to the next or previous change, round and round.
function stepChange(step) {
  const { changes } = page.data;
  if (!changes.length) {
    announce("Nothing changed on this page.");
    return;
  }
  const now = page.node(page.selected)?.number ?? null;
  const from = now ?? (step > 0 ? -1 : 0);
  const next = (from + step + changes.length) % changes.length;
  page.select(startOf(changes[next]), { always: true });
}

// Says in the details what became of a layer.
function changeNote(container, key) {
  const change = changeOf(key);
  const node = page.node(key);
  if (!change) return;
  const note = make("section", `change-note ${node.change}`);
  const number = `${CHANGE_WORDS[node.change]}: change ${node.number + 1} of ${page.data.changes.length}`;
  note.append(make("h3", "", number));
  for (const side of ["before", "after"]) {
    const line = make("p", "", `${page.graphs.get(side).title}: `);
    const byType = new Map();
    for (const other of change[side]) {
      const { type } = page.node(other);
      if (type !== "Const") byType.set(type, [...(byType.get(type) ?? []), other]);
    }
    [...byType].forEach(([type, [first, ...rest]], at) => {
      const times = rest.length ? ` \u00d7 ${rest.length + 1}` : "";
      line.append(at ? ", " : "", layerLink(first, visible(type) + times));
    });
    if (byType.size) note.append(line);
  }
  for (const found of differencesOf(change)) note.append(make("p", "differs", differenceText(found)));
  if (change.form) note.append(make("p", "", `Form: ${change.form}`));
  if (change.reason) note.append(make("p", "", visible(change.reason)));
  if (change.certificate) note.append(make("p", "certificate", visible(change.certificate)));
  container.append(note);
}

// All changes as links, for the page as a whole.
function changeList() {
  const list = make("ol", "links");
  for (const change of page.data.changes) {
    const item = make("li");
    item.append(layerLink(startOf(change), visible(change.title) || "(no name)"));
    const facts = change.form ?? differencesOf(change).map(differenceText).join("; ");
    if (facts) item.append(make("span", "quiet", ` ${facts}`));
    list.append(item);
  }
  return [make("h3", "", "Changes (n and p step through them)"), list];
}

// Which shape and colour means what, below the panes.
function changeLegend(container) {
  if (!page.data.changes.length) return;
  for (const kind of ["added", "rewritten", "removed"]) {
    const item = make("span", "legend-item");
    const canvas = make("canvas", "legend-badge");
    canvas.setAttribute("aria-hidden", "true");
    Object.assign(canvas, { width: 40, height: 40 });
    page.onRepaint(() => {
      const context = canvas.getContext("2d");
      context.setTransform(2, 0, 0, 2, 0, 0);
      context.clearRect(0, 0, 20, 20);
      drawBadge(new CanvasPainter(context), { change: kind, x: 0, width: 12, y: 8 }, theme.palette());
    });
    item.append(canvas, CHANGE_WORDS[kind]);
    container.append(item);
  }
}
