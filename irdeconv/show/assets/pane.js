// A pane: one graph on a canvas, or a body in it.

const FIRST_ZOOM = 0.8; // of a graph that does not fit as a whole
const MOST_BOXES = 300; // a graph with more of them is first shown by its groups

class Pane {
  constructor(rootKey, parent) {
    this.rootKey = rootKey;
    this.camera = new Camera();
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
    const title = roots().length > 1 ? page.graphs.get(this.rootKey).title : "graph";
    this.head.replaceChildren(make("h2", "", title));
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
      button("Fit", "Show the whole graph (f)", () => this.camera.fit(this.view)),
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
    this.setOpen(open.has(box.scene) ? rest : [...open, box.scene], box);
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

const panes = {
  all: [],
  active: null,

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
    for (const pane of this.all) {
      if (pane.holds(node.graph)) {
        this.activate(pane);
        if (!how.quiet) pane.reveal(key, how.always);
      } else {
        const other = counterpart(key);
        if (other) pane.reveal(other, true);
      }
    }
  },
};
