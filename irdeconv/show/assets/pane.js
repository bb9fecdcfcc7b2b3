// A pane: one graph on a canvas, or a body in it.

const FIRST_ZOOM = 0.8; // of a graph that does not fit as a whole
const MOST_BOXES = 300; // a graph with more of them is first shown by its groups

class Pane {
  constructor(rootKey, parent) {
    this.rootKey = rootKey;
    this.camera = new Camera(() => panes.carry(this));
    this.states = new Map(); // by graph key: the scenes, what is open, where the reader was
    this.build(parent);
    this.minimap = new Minimap(this);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    this.show(rootKey);
    watchPointer(this);
  }

  build(parent) {
    this.element = make("section", "pane");
    this.element.setAttribute("aria-label", `Graph ${page.graphs.get(this.rootKey).title}`);
    this.head = make("div", "pane-head");
    this.canvas = make("canvas", "graph");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "graph");
    this.context = this.canvas.getContext("2d");
    this.stage = make("div", "stage");
    this.stage.append(this.canvas);
    this.element.append(this.head, this.stage);
    parent.append(this.element);
    this.canvas.addEventListener("focus", () => panes.activate(this));
  }

  // Shows a graph of this side: the whole or a body.
  show(key) {
    const state = this.states.get(key);
    if (this.graph) this.states.get(this.graph.key).camera = { ...this.camera };
    this.graph = page.graphs.get(key);
    if (!state) this.states.set(key, newState(this.graph));
    this.relayout();
    if (state?.camera) {
      const { x, y, zoom } = state.camera;
      Object.assign(this.camera, { x, y, zoom });
    } else {
      this.begin();
    }
    this.writeHead();
    this.describe();
  }

  get state() {
    return this.states.get(this.graph.key);
  }

  relayout() {
    this.view = viewOf(this.state.scenes, this.state);
    this.minimap?.forget();
    page.repaint();
  }

  // The whole where it can be read, else its beginning.
  begin() {
    this.resize();
    const { camera, view } = this;
    const zoom = camera.zoomOf(view);
    const [first] = [...view.boxes].sort((a, b) => a.y - b.y);
    if (zoom >= TEXT_FROM || !first) camera.place(view.width / 2, view.height / 2, zoom);
    else camera.place(first.x + first.width / 2, camera.height / 2 / FIRST_ZOOM - 30, FIRST_ZOOM);
  }

  writeHead() {
    const { graph } = this;
    this.head.replaceChildren(make("h2", "", visible(page.graphs.get(this.rootKey).title)));
    for (const key of ancestors(graph.key)) {
      const back = button("\u2191 leave the body", "Leave the body (Backspace)", () => this.leave());
      this.head.append(make("span", "crumb", `${shownName(page.node(key))} \u203a ${graph.title}`), back);
    }
    const count = [...graph.nodes.values()].filter((node) => !node.constant).length;
    this.head.append(make("span", "quiet", `${grouped(count)} ${count === 1 ? "layer" : "layers"}`));
    this.tools = make("span", "pane-tools");
    this.head.append(this.tools);
    if (this.state.scenes.flat) {
      this.tools.append(
        button("Groups", "Show groups, all closed (E)", () => panes.setFlat(false)),
        button("All layers", "Show all layers without groups (e)", () => panes.setFlat(true)),
      );
    }
    this.tools.append(
      button("\u2212", "Zoom out (-)", () => { this.camera.zoomBy(1 / 1.3); page.repaint(); }),
      button("+", "Zoom in (+)", () => { this.camera.zoomBy(1.3); page.repaint(); }),
      button("Fit", "Show the whole graph (f)", () => panes.fit(this)),
    );
  }

  describe() {
    const layers = grouped(this.graph.nodes.size);
    const text = `${this.graph.title}, ${layers} layers. Shift and arrow keys walk along links, ? lists all keys.`;
    this.canvas.setAttribute("aria-label", text);
  }

  leave() {
    const parent = this.graph.parent;
    if (!parent) return;
    this.show(page.node(parent).graph);
    page.select(parent);
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * scale));
    this.canvas.height = Math.max(1, Math.round(clientHeight * scale));
    this.camera.resize(Math.max(1, clientWidth), Math.max(1, clientHeight));
    this.paint();
  }

  paint() {
    const { camera, context } = this;
    const scale = window.devicePixelRatio || 1;
    const palette = theme.palette();
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.ground;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const zoom = camera.zoom * scale;
    context.setTransform(zoom, 0, 0, zoom, -camera.x * zoom, -camera.y * zoom);
    drawView(new CanvasPainter(context), this.view, this.look(palette, camera.visible, camera.zoom));
    this.minimap.paint(palette);
  }

  look(palette, visible, zoom) {
    const boxes = (keys) => new Set(keys.map((key) => this.place(key)).filter(Boolean));
    const node = page.node(page.selected);
    const here = node?.graph === this.graph.key ? node.id : null;
    const selected = this.group ?? (node ? this.place(node.key) : null);
    return {
      palette, visible, zoom, selected,
      font: this.state.scenes.font,
      hits: boxes(search.shown),
      related: boxes(relatedKeys(page.selected)),
      colour: overlayColour,
      isNear: (link) => here !== null && (link.node === here || link.target === selected),
    };
  }

  // The box that stands for a layer, if it is one of this graph.
  place(key) {
    const node = page.node(key);
    return node?.graph === this.graph.key ? placeOf(this.view, this.state.ways, key) : null;
  }

  boxAt(x, y) {
    const [planeX, planeY] = this.camera.toPlane(x, y);
    return this.view.boxes.findLast((box) => planeX >= box.x && planeX <= box.x + box.width
      && planeY >= box.y && planeY <= box.y + box.height) ?? null;
  }

  // Brings a layer of this side into sight, going into its body and opening its groups.
  reveal(key, always = false) {
    const node = page.node(key);
    if (!node || !this.holds(node.graph)) return;
    if (this.graph.key !== node.graph) this.show(node.graph);
    const way = this.state.flat ? [] : this.state.ways.get(drawnKey(this.state.ways, this.view, key)) ?? [];
    if (way.some((scene) => !this.state.open.has(scene))) this.setOpen([...this.state.open, ...way]);
    const box = this.place(key);
    if (box) this.camera.show(box, always);
  }

  // Opens these groups and closes all others; `anchor` is a box or frame that stays where it is.
  setOpen(scenes, anchor = null) {
    this.state.flat = false;
    this.state.open = new Set(scenes);
    this.group = null;
    this.relayout();
    const now = anchor && [...this.view.boxes, ...this.view.frames].find((box) => box.scene === anchor.scene);
    if (!now) return;
    this.camera.stop();
    this.camera.x += now.x + now.width / 2 - anchor.x - anchor.width / 2;
    this.camera.y += now.y - anchor.y;
  }

  toggleGroup(box) {
    const { open } = this.state;
    const rest = [...open].filter((scene) => scene !== box.scene);
    announce(`${open.has(box.scene) ? "Closed" : "Opened"} ${visible(this.state.scenes.scenes[box.scene].title)}`);
    const twin = panes.linked ? this.twinGroup(box) : null;
    this.setOpen(open.has(box.scene) ? rest : [...open, box.scene], box);
    if (twin) twin.pane.setOpen(open.has(box.scene)
      ? [...twin.pane.state.open].filter((scene) => scene !== twin.scene)
      : [...twin.pane.state.open, twin.scene]);
    panes.carry(this);
  }

  // The group of the other pane around the counterpart of this group's first layer.
  twinGroup({ scene, members }) {
    const pane = panes.beside(this);
    const key = pane && counterpart(members[0]);
    const way = (key && pane.state.ways.get(key)) ?? [];
    const twin = way[this.state.ways.get(members[0]).indexOf(scene)];
    return twin && !pane.state.flat ? { pane, scene: twin } : null;
  }

  // All layers without groups, or all groups closed.
  setFlat(flat) {
    if (!this.state.scenes.flat) return undefined;
    this.state.flat = flat;
    this.state.open = new Set();
    this.group = null;
    this.relayout();
    this.writeHead();
    if (page.node(page.selected)?.graph !== this.graph.key) return this.begin();
    const box = this.place(page.selected);
    return box ? this.camera.show(box, true) : this.begin();
  }

  // Closes the group around the selected layer.
  closeAround() {
    const way = this.state.ways.get(page.selected) ?? [];
    const scene = way.findLast((number) => this.state.open.has(number));
    const frame = this.view.frames.find((box) => box.scene === scene);
    if (frame) this.toggleGroup(frame);
    return Boolean(frame);
  }

  frameAt(x, y) {
    const [planeX, planeY] = this.camera.toPlane(x, y);
    return this.view.frames.findLast((frame) => planeX >= frame.x && planeX <= frame.x + frame.width
      && planeY >= frame.y && planeY <= frame.y + frame.height) ?? null;
  }

  holds(graphKey) {
    return graphKey === this.rootKey || graphKey.startsWith(`${this.rootKey}/`);
  }
}

// The operations around a body, the outermost first.
function ancestors(graphKey) {
  const { parent } = page.graphs.get(graphKey);
  return parent ? [...ancestors(page.node(parent).graph), parent] : [];
}

// A graph as a reader first sees it: large ones by their groups.
function newState(graph) {
  const scenes = readScenes(graph);
  const count = scenes.scenes[scenes.flat].boxes.length;
  return { scenes, ways: waysOf(scenes), flat: count <= MOST_BOXES, open: new Set(), camera: null };
}

// Whether two panes show the same graph of both sides, the whole or one body.
function alikeGraphs(pane, other) {
  return pane.graph.key.slice(pane.rootKey.length) === other.graph.key.slice(other.rootKey.length);
}

// How far the other pane's layers are from those of a pane, row by row from top to bottom.
function rowOffsets(pane, other) {
  if (pane.offsets?.from === pane.view && pane.offsets.to === other.view) return pane.offsets.rows;
  const byRow = new Map();
  for (const box of pane.view.boxes) {
    const offset = boxOffset(box, other);
    const y = box.y + box.height / 2;
    if (offset) byRow.set(y, [...(byRow.get(y) ?? []), offset]);
  }
  const mean = (offsets, axis) => offsets.reduce((sum, offset) => sum + offset[axis], 0) / offsets.length;
  const rows = [...byRow].map(([y, offsets]) => [y, mean(offsets, 0), mean(offsets, 1)]);
  rows.sort((a, b) => a[0] - b[0]);
  pane.offsets = { from: pane.view, to: other.view, rows };
  return rows;
}

function boxOffset(box, other) {
  const key = box.key ?? box.members?.[0];
  const twin = key && counterpart(key);
  const place = twin && other.place(twin);
  if (!place) return null;
  return [place.x - box.x + (place.width - box.width) / 2, place.y - box.y + (place.height - box.height) / 2];
}

// The way to the corresponding place: between rows it changes bit by bit, and it is exact for the
// layer that was selected last.
function offsetAt(pane, other, y) {
  const rows = rowOffsets(pane, other);
  if (!rows.length) return [0, 0];
  const between = (at) => {
    const next = rows.findIndex((row) => row[0] >= at);
    if (next <= 0) return rows.at(next).slice(1);
    const [a, b] = [rows[next - 1], rows[next]];
    const share = (at - a[0]) / (b[0] - a[0]);
    return [1, 2].map((axis) => a[axis] + (b[axis] - a[axis]) * share);
  };
  const box = pane.place(panes.anchor(pane));
  const exact = box && boxOffset({ ...box, key: panes.anchor(pane) }, other);
  const [usual, here] = [exact && between(box.y + box.height / 2), between(y)];
  return here.map((offset, axis) => offset + (exact ? exact[axis] - usual[axis] : 0));
}

const panes = {
  all: [],
  active: null,
  linked: true,
  last: null, // the key of the layer that was selected last

  open() {
    const parent = make("div", "pane-row");
    document.getElementById("panes").append(parent);
    this.all = roots().map((graph) => new Pane(graph.key, parent));
    this.activate(this.all[0]);
    page.onRepaint(() => this.all.forEach((pane) => pane.paint()));
    page.onSelect((key, how) => this.follow(key, how));
  },

  // Where to begin depends on the size of a pane, which is known only when the whole page is there.
  settle() {
    for (const pane of this.all) {
      pane.resize();
      pane.begin();
    }
    this.carry(this.active);
  },

  // Both sides show the same, or nobody could compare them.
  setFlat(flat) {
    const grouped = this.all.filter((pane) => pane.state.scenes.flat);
    for (const pane of grouped) pane.setFlat(flat);
    announce(grouped.length ? `${flat ? "All layers" : "Groups"} shown` : "This graph has no groups.");
  },

  activate(pane) {
    this.active = pane;
    for (const each of this.all) each.element.classList.toggle("active", each === pane);
  },

  // The pane of the selected layer shows it, the other one what it became or was.
  follow(key, how) {
    const node = page.node(key);
    if (!node) return;
    const pane = this.all.find((each) => each.holds(node.graph));
    this.activate(pane);
    this.last = node.key;
    if (!how.quiet) pane.reveal(key, how.always);
    const twin = this.beside(pane) && counterpart(key);
    if (twin) this.beside(pane).reveal(twin, true);
    this.carry(pane);
  },

  beside(pane) {
    return this.all.find((each) => each !== pane) ?? null;
  },

  // The layer of a pane that was selected last, or its counterpart.
  anchor(pane) {
    if (!this.last || pane.holds(page.node(this.last).graph)) return this.last;
    return counterpart(this.last);
  },

  fit(pane) {
    const other = this.linked && this.beside(pane);
    if (!other) return pane.camera.fit(pane.view);
    const zoom = Math.min(...this.all.map(({ camera, view }) => camera.zoomOf(view)));
    return this.all.forEach(({ camera, view }) => camera.goTo(view.width / 2, view.height / 2, zoom));
  },

  toggleLinked() {
    this.linked = !this.linked;
    document.getElementById("linked")?.setAttribute("aria-pressed", String(this.linked));
    this.carry(this.active);
    page.repaint();
    announce(this.linked ? "Both sides move together" : "Each side moves alone");
  },

  // The other pane goes to the place that corresponds to the one that this pane shows.
  carry(pane) {
    const other = this.beside(pane);
    if (!this.linked || !other || !alikeGraphs(pane, other)) return;
    const { x, y, zoom } = pane.camera.aim;
    const [right, down] = offsetAt(pane, other, y);
    const go = pane.camera.moving ? "goTo" : "place";
    other.camera[go](x + right, y + down, zoom);
  },
};
