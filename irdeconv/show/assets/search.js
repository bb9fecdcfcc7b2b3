// Search over name, type, attributes and shape.
// Words must all be found. `type:Pad`, `name:up1`, `shape:1,64`, `attr:strides=2`, `change:added`,
// `id:12` look into one field only; a term that begins with `=` has to fit as a whole.

const FIELDS = {
  name: (node) => [node.name, ...node.tensors, ...node.origins],
  type: (node) => [node.type],
  attr: (node) => Object.entries(node.attributes).map(([name, text]) => `${name}=${text}`),
  shape: (node) => [...node.outputs, ...node.inputs.map(([, , spec]) => spec)],
  change: (node) => [node.change],
  id: (node) => [String(node.id)],
};
const EVERYWHERE = ["name", "type", "attr", "shape"];
const MOST_RESULTS = 200;

function termsOf(query) {
  const words = query.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];
  return words.map((word) => {
    const found = /^(\w+):(.*)$/s.exec(word);
    const known = found !== null && Object.hasOwn(FIELDS, found[1].toLowerCase());
    const text = (known ? found[2] : word).replaceAll('"', "").toLowerCase();
    const exact = known && text.startsWith("=");
    return { fields: known ? [found[1].toLowerCase()] : EVERYWHERE, text: exact ? text.slice(1) : text, exact };
  }).filter((term) => term.text !== "" || term.exact);
}

// A shape is looked for without its brackets, from the beginning or anywhere between commas.
function fits(node, { fields, text, exact }) {
  return fields.some((field) => FIELDS[field](node).some((found) => {
    const whole = found.toLowerCase();
    if (exact) return whole === text;
    if (field === "shape" && fields.length === 1) return fitsShape(whole, text);
    return whole.includes(text);
  }));
}

function fitsShape(spec, text) {
  const inner = (shape) => shape.replace(/^.*\[/, "").replace(/\].*$/, "").replaceAll(" ", "");
  return /^[\d,?. [\]x-]*$/.test(text)
    ? `,${inner(spec)},`.includes(`,${inner(text.replaceAll("x", ",")).replace(/,$/, "")},`)
    : spec.includes(text);
}

function findLayers(query) {
  const terms = termsOf(query);
  if (!terms.length) return [];
  const out = [];
  for (const graph of page.graphs.values()) {
    for (const node of graph.nodes.values()) {
      if (terms.every((term) => fits(node, term))) out.push(node.key);
    }
  }
  // Constants come last: who looks for "conv" wants layers.
  return [...out.filter((key) => !page.node(key).constant), ...out.filter((key) => page.node(key).constant)];
}

const search = {
  hits: [],
  shown: [],
  at: -1,

  open() {
    for (const id of ["query", "results", "hits"]) this[id === "hits" ? "count" : id] = document.getElementById(id);
    this.query.addEventListener("input", () => this.find());
    this.query.addEventListener("focus", () => this.unfold(this.hits.length > 0));
    this.query.addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!document.getElementById("search").contains(event.target)) this.unfold(false);
    });
  },

  ask(text) {
    this.query.value = text;
    this.query.focus();
    this.find();
  },

  find() {
    this.hits = findLayers(this.query.value);
    this.shown = this.hits.slice(0, 2000);
    this.at = -1;
    const asked = this.query.value.trim() !== "";
    this.count.textContent = asked ? `${grouped(this.hits.length)} found` : "";
    this.results.replaceChildren(...this.hits.slice(0, MOST_RESULTS).map((key, at) => this.row(key, at)));
    const more = this.hits.length - MOST_RESULTS;
    if (more > 0) this.results.append(make("li", "quiet", `and ${grouped(more)} more`));
    this.unfold(asked && this.hits.length > 0);
    this.mark();
    page.repaint();
  },

  row(key, at) {
    const node = page.node(key);
    const item = make("li");
    item.id = `result-${at}`;
    item.setAttribute("role", "option");
    const side = page.graphs.size > 1 ? `${visible(page.graphs.get(node.graph).title)} ` : "";
    item.append(
      make("span", "result-name", shortened(shownName(node), 80)),
      make("span", "quiet", `${side}${visible(node.type)} ${visible(node.outputs.join(" "))}`),
    );
    item.addEventListener("click", () => this.choose(at));
    return item;
  },

  unfold(open) {
    this.results.hidden = !open;
    this.query.setAttribute("aria-expanded", String(open));
  },

  mark() {
    [...this.results.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.at)));
    const item = this.results.children[this.at];
    if (item) {
      this.query.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      this.query.removeAttribute("aria-activedescendant");
    }
  },

  choose(at) {
    this.at = at;
    this.mark();
    page.select(this.hits[at], { always: true });
  },

  // Arrows choose and show at once; Enter takes the next hit, Escape closes, then clears.
  key(event) {
    const last = Math.min(this.hits.length, MOST_RESULTS) - 1;
    const steps = { ArrowDown: 1, Enter: event.shiftKey ? -1 : 1, ArrowUp: -1 };
    if (event.key === "Escape") {
      event.preventDefault(); // or the browser would clear the field at once
      if (this.results.hidden) this.ask("");
      this.unfold(false);
      panes.active.canvas.focus();
    } else if (Object.hasOwn(steps, event.key) && last >= 0) {
      event.preventDefault();
      this.unfold(true);
      this.choose((this.at + steps[event.key] + last + 1) % (last + 1));
    }
  },
};
