// Beside the panes: what there is to say of the selected layer, else of the whole graph.

const sidebar = {
  open() {
    this.element = document.getElementById("side");
    page.onSelect((key) => this.show(key));
    page.onOverlay(() => page.selected === null && this.show(null));
    this.show(null);
  },

  show(key) {
    const content = make("div", "side-content");
    const node = page.node(key);
    if (node) {
      changeNote(content, key);
      showDetails(content, key);
      showValues(content, key);
    } else {
      this.overview(content);
    }
    this.element.replaceChildren(content);
    this.element.scrollTop = 0;
  },

  overview(container) {
    container.append(make("h2", "layer-name", visible(page.data.title)));
    container.append(totals(), ...overlayRanking());
    for (const graph of page.graphs.values()) {
      if (!graph.parent) container.append(...typeTable(graph));
    }
    for (const note of page.data.notes) container.append(make("p", "quiet", visible(note)));
    if (page.data.changes.length) container.append(...changeList());
    container.append(make("p", "quiet foot", `Made by irdeconv ${page.data.version}. Press ? for all keys.`));
  },
};

function sums(graph) {
  const nodes = [...graph.nodes.values()];
  const constants = nodes.filter((node) => node.type === "Const");
  const add = (list, field) => list.reduce((total, node) => total + (node[field] ?? 0), 0);
  return {
    layers: nodes.filter((node) => !node.constant).length,
    deconvolutions: nodes.filter((node) => node.deconvolution).length,
    parameters: add(constants, "parameters"),
    bytes: add(constants, "bytes"),
    macs: add(nodes, "macs"),
    unknown: nodes.filter((node) => node.macs === null).length,
  };
}

// A table of sums, a column for each graph.
function totals() {
  const graphs = [...page.graphs.values()].filter((graph) => !graph.parent);
  const each = graphs.map(sums);
  const table = make("table", "totals");
  const head = table.createTHead().insertRow();
  if (graphs.length > 1) {
    for (const title of ["", ...graphs.map((graph) => graph.title)]) head.append(make("th", "", title));
  }
  const rows = [
    ["layers", (s) => grouped(s.layers)],
    ["deconvolutions", (s) => grouped(s.deconvolutions)],
    ["parameters", (s) => scaled(s.parameters)],
    ["constants", (s) => scaled(s.bytes, "B")],
    ["MACs", (s) => scaled(s.macs) + (s.unknown ? ` + ${s.unknown} unknown` : "")],
  ];
  const body = table.createTBody();
  for (const [title, text] of rows) {
    const row = body.insertRow();
    row.append(make("th", "", title), ...each.map((sum) => make("td", "number", text(sum))));
  }
  return table;
}

const MOST_TYPES = 12;

function typeTable(graph) {
  const counts = new Map();
  for (const node of graph.nodes.values()) {
    if (!node.constant) counts.set(node.type, (counts.get(node.type) ?? 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const list = make("ul", "types");
  for (const [type, count] of sorted.slice(0, MOST_TYPES)) {
    const item = make("li");
    const find = button(visible(type), `Find layers of the type ${visible(type)}`, () => search.ask(`type:=${type}`));
    item.append(find, make("span", "number", grouped(count)));
    list.append(item);
  }
  const more = sorted.length - MOST_TYPES;
  const title = page.graphs.size > 1 ? `Operations ${graph.title}` : "Operations";
  return [make("h3", "", title), list, ...(more > 0 ? [make("p", "quiet", `and ${more} more types`)] : [])];
}
