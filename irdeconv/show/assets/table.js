// The table of layers: of the graph that the active pane shows. Only rows in sight exist.

const ROW = 24; // pixels of a row of one line, as in page.css
const LINE = 20; // pixels of each further line
const MOST_LINES = 3; // of a name
const MOST_WIDTH = { type: 260, output: 260 }; // pixels
const LEAST_TEXT = 130; // pixels of a column with two titles
const LONGEST = 40; // names that are measured

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
    this.constants.addEventListener("change", () => this.write());
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
    new ResizeObserver(() => this.arrange()).observe(this.grid);
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
    this.measure();
    this.arrange();
    this.fill();
  },

  // Every column is as wide as its longest text.
  measure() {
    const context = make("canvas").getContext("2d");
    const { fontSize, fontFamily } = getComputedStyle(this.grid);
    const wide = (text, weight) => {
      context.font = `${weight} ${fontSize} ${fontFamily}`;
      return context.measureText(text).width;
    };
    const nodes = this.all();
    const byLength = (a, b) => b.length - a.length;
    this.longest = nodes.map(shownName).sort(byLength).slice(0, LONGEST);
    this.widths = this.columns.map((column) => {
      const [longest = ""] = nodes.map((node) => column.text(node)).sort(byLength);
      // The title leaves room for the sign of its order.
      const text = longest.replace(/\d/g, "0"); // digits have one width
      const need = Math.ceil(Math.max(wide(text, 400), wide(`${column.title} \u25BE`, 600)) + 13);
      return Math.min(need, MOST_WIDTH[column.title] ?? need);
    });
  },

  // Where one line has no room for all columns, the name stands above the others; narrow windows scroll.
  arrange() {
    if (!this.graph) return;
    const [id, name, type, ...others] = this.widths;
    const room = this.grid.clientWidth;
    const total = (widths) => widths.reduce((sum, width) => sum + width, 0);
    const above = total(this.widths) > room;
    this.grid.classList.toggle("name-above", above);
    const texts = above ? [Math.max(type - id, LEAST_TEXT)] : [name, type];
    const flexible = texts.map((width) => `minmax(${width}px, ${width}fr)`);
    const { style } = this.grid;
    style.setProperty("--columns", [`${id}px`, ...flexible, ...others.map((width) => `${width}px`)].join(" "));
    style.setProperty("--least", `${total([id, ...texts, ...others])}px`);
    style.setProperty("--name", above ? `${room - id}px` : "auto");
    this.rowHeight = ROW + (above ? this.nameLines() * LINE : 0);
    style.setProperty("--row", `${this.rowHeight}px`);
    this.resize();
  },

  // The lines of the longest names above the other columns.
  nameLines() {
    const row = make("div", "grid-row unseen");
    for (const name of this.longest) row.append(this.cell(this.columns[1], name));
    this.body.append(row);
    const lines = Math.max(1, ...[...row.children].map((cell) => Math.round((cell.offsetHeight - 2) / LINE)));
    row.remove();
    return Math.min(lines, MOST_LINES);
  },

  resize() {
    this.body.style.height = `${this.rows.length * this.rowHeight}px`;
    this.paint();
  },

  all() {
    return [...this.graph.nodes.values()].filter((node) => this.constants.checked || !node.constant);
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
    const all = this.all();
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
    this.resize();
  },

  paint() {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / this.rowHeight) - 8);
    const last = Math.min(this.rows.length, first + Math.ceil(this.grid.clientHeight / this.rowHeight) + 16);
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
    row.style.top = `${at * this.rowHeight}px`;
    row.append(...this.columns.map((column) => this.cell(column, column.text(node))));
    row.addEventListener("click", () => page.select(node.key, { from: "table" }));
    return row;
  },

  cell(column, whole) {
    const text = shortened(whole, 400);
    const cell = breakable(make("div", `cell col-${column.title} ${column.number ? "number" : ""}`), text);
    if (!column.number) cell.title = text;
    cell.setAttribute("role", "gridcell");
    return cell;
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
    const top = at * this.rowHeight;
    const least = top + this.rowHeight + this.head.offsetHeight - clientHeight;
    if (top < scrollTop) this.grid.scrollTop = top;
    else if (least > scrollTop) this.grid.scrollTop = Math.min(top, Math.ceil(least / this.rowHeight) * this.rowHeight);
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
