// Keys, and the list of them.

const KEYS = [
  ["Move and zoom", [
    ["arrows", "move the picture"],
    ["+ -", "zoom; so do the wheel and two fingers"],
    ["f", "show the whole graph"],
    ["0", "zoom to 100 %"],
    ["c", "show the selected layer in the middle"],
    ["y", "move both sides together, or each alone"],
  ]],
  ["Walk", [
    ["Shift ↓  j", "to a reader of the selected layer"],
    ["Shift ↑  k", "to a producer"],
    ["Shift ← →  h l", "to the layer beside it"],
    ["Home End", "to the first or last layer"],
    ["n p", "to the next or previous change"],
    ["o", "to what the layer became, or was"],
  ]],
  ["Open", [
    ["Enter", "open or close a group, go into a body"],
    ["Backspace", "leave a body, close the group around"],
    ["e E", "show all layers, or groups that are closed"],
  ]],
  ["Page", [
    ["/", "search: words, type:Pad, name:up1, shape:1,64, attr:strides=2, change:added, id:12"],
    ["t", "show or hide the table"],
    ["i", "show or hide the details"],
    ["m M", "colour by the next or previous number"],
    ["g", "log or linear colours"],
    ["x X", "to the layer with the largest number, down and up the list"],
    ["d", "light or dark"],
    ["s", "save the graph as SVG"],
    ["Escape", "select nothing, close what is open"],
    ["?", "this list"],
  ]],
];

const PAN = 80;

const ACTIONS = new Map(Object.entries({
  "ArrowLeft": () => panBy(PAN, 0),
  "ArrowRight": () => panBy(-PAN, 0),
  "ArrowUp": () => panBy(0, PAN),
  "ArrowDown": () => panBy(0, -PAN),
  "+": () => zoomBy(1.3),
  "=": () => zoomBy(1.3),
  "-": () => zoomBy(1 / 1.3),
  "0": () => zoomBy(1 / panes.active.camera.zoom),
  "f": () => panes.fit(panes.active),
  "c": () => page.selected && page.select(page.selected, { always: true }),
  "j": () => walk("down"),
  "k": () => walk("up"),
  "h": () => walk("left"),
  "l": () => walk("right"),
  "Shift+ArrowDown": () => walk("down"),
  "Shift+ArrowUp": () => walk("up"),
  "Shift+ArrowLeft": () => walk("left"),
  "Shift+ArrowRight": () => walk("right"),
  "Home": () => walk("first"),
  "End": () => walk("last"),
  "n": () => stepChange(1),
  "p": () => stepChange(-1),
  "o": () => page.select(page.selected && (counterpart(page.selected) ?? page.selected)),
  "Enter": () => enter(panes.active, panes.active.group ?? panes.active.place(page.selected)),
  "Backspace": () => panes.active.closeAround() || panes.active.leave(),
  "e": () => panes.setFlat(true),
  "E": () => panes.setFlat(false),
  "/": () => search.query.select(),
  "t": () => toggleFolded("no-table"),
  "i": () => toggleFolded("no-side"),
  "m": () => overlays.step(1),
  "M": () => overlays.step(-1),
  "g": () => overlays.toggleScale(),
  "x": () => overlays.walk(1),
  "X": () => overlays.walk(-1),
  "y": () => panes.toggleLinked(),
  "d": () => theme.toggle(),
  "s": () => downloadSvg(),
  "?": () => toggleHelp(),
  "Escape": () => page.select(null),
}));

function panBy(dx, dy) {
  panes.active.camera.pan(dx, dy);
  page.repaint();
}

function zoomBy(factor) {
  panes.active.camera.zoomBy(factor);
  page.repaint();
}

// The layers beside, above or below the selected one; without one, the first.
function walk(way) {
  const { view } = panes.active;
  const boxes = view.boxes.filter((box) => box.key !== null).sort((a, b) => a.y - b.y || a.x - b.x);
  const here = panes.active.place(page.selected);
  const ends = { first: boxes.at(0)?.key, last: boxes.at(-1)?.key };
  const found = here && !Object.hasOwn(ends, way) ? stepFrom(boxes, here, way) : ends[way] ?? ends.first;
  if (found) page.select(found);
  else announce("Nothing there.");
}

function stepFrom(boxes, here, way) {
  if (way === "left" || way === "right") {
    const row = boxes.filter((box) => Math.abs(box.y - here.y) < here.height && box !== here);
    const side = row.filter((box) => (way === "right" ? box.x > here.x : box.x < here.x));
    return side.sort((a, b) => Math.abs(a.x - here.x) - Math.abs(b.x - here.x))[0]?.key;
  }
  const node = page.node(page.selected);
  const ids = way === "down" ? node.users.map(([id]) => id) : node.inputs.map(([id]) => id);
  const near = ids.map((id) => page.node(`${node.graph}/${id}`)).filter(Boolean);
  return (near.find((other) => !other.constant) ?? near[0])?.key;
}

// Hides or shows a part of the page; its button says which it is.
function toggleFolded(name) {
  const hidden = document.getElementById("main").classList.toggle(name);
  document.querySelector(`[data-part="${name}"]`).setAttribute("aria-pressed", String(!hidden));
}

function partButton(label, title, name) {
  const made = button(label, title, () => toggleFolded(name));
  made.dataset.part = name;
  made.setAttribute("aria-pressed", "true");
  return made;
}

function linkButton() {
  const made = button("Linked", "Move both sides together (y)", () => panes.toggleLinked());
  made.id = "linked";
  made.setAttribute("aria-pressed", "true");
  return made;
}

function toggleHelp() {
  const dialog = document.getElementById("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function writeHelp() {
  const dialog = document.getElementById("help");
  const parts = make("div", "help-columns");
  for (const [title, keys] of KEYS) {
    const section = make("section");
    section.append(make("h3", "", title), definitions(keys));
    parts.append(section);
  }
  dialog.append(make("h2", "", "Keys"), parts, button("Close", "Close (Escape)", toggleHelp));
}

function watchKeys() {
  writeHelp();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, select, textarea, dialog, [role=separator]")) return;
    const arrow = event.shiftKey && event.key.startsWith("Arrow");
    const action = ACTIONS.get(arrow ? `Shift+${event.key}` : event.key);
    const pressed = event.target.closest("button, a, summary") && (event.key === "Enter" || event.key === " ");
    if (!action || pressed) return;
    event.preventDefault();
    action();
  });
}
