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
      bodyButtons(content, node);
      showDetails(content, key);
    } else {
      this.overview(content);
    }
    this.element.replaceChildren(content);
    this.element.scrollTop = 0;
  },

  overview(container) {
    if (page.data.file) container.append(placeText(page.data.file, "p"));
    container.append(totals(), ...overlayRanking());
    for (const note of page.data.notes) container.append(make("p", "quiet note", visible(note)));
    if (page.data.changes.length) container.append(...changeList());
    container.append(...typeTable());
    container.append(make("p", "quiet foot", `Made by irdeconv ${page.data.version}. Press ? for all keys.`));
  },
};

// A loop has a body, a branch has two.
function bodyButtons(container, node) {
  const go = (tag) => {
    const pane = panes.all.find((each) => each.holds(node.graph));
    panes.activate(pane);
    pane.show(`${node.key}/${tag}`);
    pane.canvas.focus();
  };
  const line = make("p", "buttons");
  for (const tag of node.bodies) line.append(button(tag, `Go into ${tag}`, () => go(tag)));
  if (node.bodies.length) container.append(line);
}

function sums(graph) {
  const nodes = [...graph.nodes.values()];
  const constants = nodes.filter((node) => node.type === "Const");
  const add = (list, field) => list.reduce((total, node) => total + (node[field] ?? 0), 0);
  return {
    deconvolutions: nodes.filter((node) => node.deconvolution).length,
    parameters: add(constants, "parameters"),
    constants: constants.length,
    bytes: add(constants, "bytes"),
    macs: add(nodes, "macs"),
    unknown: nodes.filter((node) => node.macs === null).length,
  };
}

// A table of sums, a column for each graph.
function totals() {
  const graphs = roots();
  const each = graphs.map(sums);
  const table = make("table", "totals");
  const head = table.createTHead().insertRow();
  if (graphs.length > 1) {
    for (const title of ["", ...graphs.map((graph) => graph.title)]) head.append(make("th", "", title));
  }
  const rows = [
    ["deconvolutions", (s) => grouped(s.deconvolutions)],
    ["parameters", (s) => scaled(s.parameters)],
    ["constants", (s) => `${grouped(s.constants)}, ${scaled(s.bytes, "B")}`],
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

// How many layers of each type there are, a column for each graph; a click finds them.
function typeTable() {
  const graphs = roots();
  const counts = graphs.map((graph) => {
    const found = new Map();
    for (const { constant, type } of graph.nodes.values()) {
      if (!constant) found.set(type, (found.get(type) ?? 0) + 1);
    }
    return found;
  });
  const most = (type) => Math.max(...counts.map((found) => found.get(type) ?? 0));
  const types = [...new Set(counts.flatMap((found) => [...found.keys()]))];
  types.sort((a, b) => most(b) - most(a) || (a < b ? -1 : 1));
  const table = make("table", "totals");
  const fill = (few) => {
    const body = make("tbody");
    for (const type of types.slice(0, few)) body.append(typeRow(type, counts));
    table.replaceChildren(body);
  };
  fill(MOST_TYPES);
  const more = types.length - MOST_TYPES;
  const rest = button(`${more} more types`, "Show all types", () => { fill(types.length); rest.remove(); }, "plain");
  return [make("h3", "", "Operations"), table, ...(more > 0 ? [rest] : [])];
}

function typeRow(type, counts) {
  const row = make("tr");
  const title = make("th");
  const shown = visible(type);
  title.append(button(shown, `Find layers of the type ${shown}`, () => search.ask(`type:=${type}`), "plain"));
  const numbers = counts.map((found) => {
    const count = found.get(type) ?? 0;
    const differs = counts.some((other) => (other.get(type) ?? 0) !== count);
    return make("td", differs ? "number differs" : "number", count ? grouped(count) : "–");
  });
  row.append(title, ...numbers);
  return row;
}
