// The table of layers: of the graph that the active pane shows. Only rows in sight exist.

const ROW = 24; // pixels, as in page.css
const MOST_OUTPUT = 170; // pixels that the text of outputs gets before names and types do
const MOST_TEXT = 600; // pixels of a name that have a share in the room
const LEAST_TEXT = { name: 110, type: 80 }; // pixels that the texts shrink to

const COLUMNS = [
  { title: "id", text: (node) => String(node.id), sort: (node) => node.id, number: true },
  { title: "name", text: shownName, sort: (node) => node.name },
  { title: "type", text: (node) => visible(node.type), sort: (node) => node.type },
  { title: "output", text: (node) => visible(node.outputs.join(" ")), sort: (node) => node.outputs.join(" ") },
  { title: "change", text: (node) => (node.change === "same" ? "" : CHANGE_WORDS[node.change]), sort: (node) => node.change },
  { title: "parameters", text: (node) => amount(node.parameters), sort: (node) => node.parameters, number: true },
  { title: "bytes", text: (node) => amount(node.bytes), sort: (node) => node.bytes, number: true },
  { title: "MACs", text: (node) => amount(node.macs), sort: (node) => node.macs ?? -1, number: true },
];

function amount(value) {
  return value === 0 ? "" : grouped(value);
}

const table = {
  order: { column: COLUMNS[0], down: false },
  rows: [],
  graph: null,

  open() {
    this.build(document.getElementById("table"));
    page.onSelect((key, how) => this.follow(key, how));
    page.onRepaint(() => this.refresh());
    page.onOverlay(() => this.showColumns());
    this.showColumns();
  },

  build(section) {
    const bar = make("div", "table-bar");
    this.filter = make("input");
    this.filter.type = "search";
    this.filter.placeholder = "Filter the table, as in the search";
    this.filter.setAttribute("aria-label", "Filter the table");
    this.filter.addEventListener("input", () => this.fill());
    this.constants = make("input");
    this.constants.type = "checkbox";
    this.constants.addEventListener("change", () => this.fill());
    const label = make("label", "", "constants");
    label.prepend(this.constants);
    this.title = make("h2");
    this.count = make("span", "quiet");
    this.count.setAttribute("aria-live", "polite");
    bar.append(this.title, this.filter, label, this.count);
    section.append(bar, this.buildGrid());
  },

  buildGrid() {
    this.grid = make("div", "grid");
    this.grid.setAttribute("role", "grid");
    this.grid.setAttribute("aria-label", "Layers");
    this.grid.tabIndex = 0;
    this.head = make("div", "grid-row grid-head");
    this.head.setAttribute("role", "row");
    this.body = make("div", "grid-body");
    this.body.setAttribute("role", "rowgroup");
    this.grid.append(this.head, this.body);
    this.grid.addEventListener("scroll", () => this.paint());
    this.grid.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(this.grid);
    return this.grid;
  },

  headCell(column) {
    const cell = make("div", `cell col-${column.title} ${column.number ? "number" : ""}`);
    cell.setAttribute("role", "columnheader");
    cell.append(button(column.title, `Sort by ${column.title}`, () => this.sortBy(column)));
    return cell;
  },

  sortBy(column) {
    const again = this.order.column === column;
    // Of numbers the largest are of interest.
    this.order = { column, down: again ? !this.order.down : Boolean(column.number) && column.title !== "id" };
    this.fill();
  },

  // The columns of a page, and that of the number that colours the layers.
  showColumns() {
    const own = COLUMNS.filter(({ title }) => title !== "change" || page.data.changes.length);
    const more = overlayColumn();
    this.columns = more ? [...own, more] : own;
    this.head.replaceChildren(...this.columns.map((column) => this.headCell(column)));
    const kept = this.columns.find(({ title }) => title === this.order.column.title);
    this.order = kept ? { ...this.order, column: kept } : { column: COLUMNS[0], down: false };
    if (this.graph) this.write();
  },

  write() {
    this.setWidths();
    this.fill();
  },

  // Every column but names and types is as wide as its longest text; narrow windows scroll.
  setWidths() {
    const context = make("canvas").getContext("2d");
    const { fontSize, fontFamily } = getComputedStyle(this.grid);
    const wide = (text, weight) => {
      context.font = `${weight} ${fontSize} ${fontFamily}`;
      return context.measureText(text).width;
    };
    const nodes = [...this.graph.nodes.values()];
    let least = 0;
    const columns = this.columns.map((column) => {
      const texts = nodes.map((node) => column.text(node));
      const longest = texts.reduce((a, b) => (b.length > a.length ? b : a), "");
      // The title leaves room for the sign of its order.
      const need = Math.ceil(Math.max(wide(longest, 400) + 4, wide(`${column.title} \u25BE`, 600)) + 18);
      const width = LEAST_TEXT[column.title] ?? (column.title === "output" ? Math.min(need, MOST_OUTPUT) : need);
      least += width;
      return Object.hasOwn(LEAST_TEXT, column.title) ? `minmax(${width}px, ${Math.min(need, MOST_TEXT)}fr)` : `${width}px`;
    });
    this.grid.style.setProperty("--columns", columns.join(" "));
    this.grid.style.setProperty("--least", `${least}px`);
  },

  // Another graph is shown: so is its table.
  refresh() {
    const { graph } = panes.active;
    if (graph === this.graph) return;
    this.graph = graph;
    this.title.textContent = page.graphs.size > 1 ? `Layers: ${graph.title}` : "Layers";
    this.write();
  },

  fill() {
    const terms = termsOf(this.filter.value);
    const all = [...this.graph.nodes.values()].filter((node) => this.constants.checked || !node.constant);
    this.rows = all.filter((node) => terms.every((term) => fits(node, term)));
    const { column, down } = this.order;
    const sign = down ? -1 : 1;
    const compare = (a, b) => (a < b ? -1 : Number(a > b));
    this.rows.sort((a, b) => sign * compare(column.sort(a), column.sort(b)) || a.id - b.id);
    const some = this.rows.length < all.length;
    this.count.textContent = some ? `${grouped(this.rows.length)} of ${grouped(all.length)}` : "";
    this.grid.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.columns.forEach((each, at) => {
      const state = each === column ? (down ? "descending" : "ascending") : "none";
      this.head.children[at].setAttribute("aria-sort", state);
    });
    this.body.style.height = `${this.rows.length * ROW}px`;
    this.paint();
  },

  paint() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil(this.grid.clientHeight / ROW) + 16);
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(this.rows[at], at));
    this.body.replaceChildren(...rows);
  },

  row(node, at) {
    const row = make("div", `grid-row ${node.change}`);
    row.setAttribute("role", "row");
    row.setAttribute("aria-rowindex", String(at + 2));
    row.setAttribute("aria-selected", String(node.key === page.selected));
    row.id = `row-${at}`;
    row.style.top = `${at * ROW}px`;
    for (const column of this.columns) {
      const text = shortened(column.text(node), 400);
      const cell = make("div", `cell col-${column.title} ${column.number ? "number" : ""}`, text);
      if (!column.number) cell.title = text;
      cell.setAttribute("role", "gridcell");
      row.append(cell);
    }
    row.addEventListener("click", () => page.select(node.key, { from: "table" }));
    return row;
  },

  follow(key, how) {
    this.refresh();
    const at = this.rows.findIndex((node) => node.key === key);
    if (at >= 0 && how.from !== "table") this.scrollTo(at);
    if (at >= 0) this.grid.setAttribute("aria-activedescendant", `row-${at}`);
    else this.grid.removeAttribute("aria-activedescendant");
    this.paint();
  },

  scrollTo(at) {
    const { scrollTop, clientHeight } = this.grid;
    const top = at * ROW;
    if (top < scrollTop) this.grid.scrollTop = top;
    else if (top + 2 * ROW > scrollTop + clientHeight) this.grid.scrollTop = top + 2 * ROW - clientHeight;
  },

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (!Object.hasOwn(steps, event.key) || !this.rows.length || event.target !== this.grid) return;
    event.preventDefault();
    event.stopPropagation();
    const now = this.rows.findIndex((node) => node.key === page.selected);
    const at = Math.min(this.rows.length - 1, Math.max(0, now + steps[event.key]));
    this.scrollTo(at);
    page.select(this.rows[at].key, { from: "table" });
  },
};
