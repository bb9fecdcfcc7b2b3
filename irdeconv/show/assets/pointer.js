// Mouse, touch and pen on a pane: drag, wheel, pinch, click, double click.

const STILL = 4; // pixels that a click may move

function watchPointer(pane) {
  const { canvas, camera } = pane;
  const down = new Map();
  let moved = 0;

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = down.size > 1 ? STILL : 0;
    camera.stop();
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return hover(pane, event);
    const now = [event.offsetX, event.offsetY];
    if (down.size === 2) pinch(camera, down, event.pointerId, now);
    else camera.pan(now[0] - before[0], now[1] - before[1]);
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    down.set(event.pointerId, now);
    canvas.classList.toggle("dragged", moved >= STILL);
    page.repaint();
    return undefined;
  });

  const up = (event) => {
    const clicked = down.delete(event.pointerId) && moved < STILL && event.type === "pointerup";
    canvas.classList.remove("dragged");
    if (clicked && event.button === 0) click(pane, event);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("dblclick", (event) => {
    const at = [event.offsetX, event.offsetY];
    enter(pane, pane.boxAt(...at) ?? pane.frameAt(...at));
  });
  canvas.addEventListener("wheel", (event) => wheel(camera, event), { passive: false });
}

function hover(pane, event) {
  const box = pane.boxAt(event.offsetX, event.offsetY);
  pane.canvas.classList.toggle("over", box !== null);
  const node = box?.key ? page.node(box.key) : null;
  pane.canvas.title = node ? `${visible(node.type)}\n${shortened(shownName(node), 300)}\n${node.outputs.join(", ")}${overlayHint(node.key)}` : "";
}

// Two fingers: what was between them stays between them.
function pinch(camera, down, moving, now) {
  const [fixed] = [...down].filter(([id]) => id !== moving).map(([, at]) => at);
  const before = down.get(moving);
  const apart = (a, b) => Math.max(1, Math.hypot(a[0] - b[0], a[1] - b[1]));
  camera.zoomBy(apart(now, fixed) / apart(before, fixed), (now[0] + fixed[0]) / 2, (now[1] + fixed[1]) / 2);
  camera.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
}

function wheel(camera, event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  if (event.shiftKey) {
    camera.pan(-(event.deltaX || event.deltaY) * lines, 0);
  } else {
    // Trackpads send a pinch as a wheel with ctrl and small steps.
    const speed = event.ctrlKey ? 0.01 : 0.0015;
    camera.zoomBy(Math.exp(-event.deltaY * lines * speed), event.offsetX, event.offsetY);
  }
  page.repaint();
}

function click(pane, event) {
  panes.activate(pane);
  const box = pane.boxAt(event.offsetX, event.offsetY);
  pane.group = box?.scene ? box : null;
  page.select(box?.key ?? null, { quiet: true });
  if (pane.group) announce(`Group ${box.lines.map((line) => visible(line.text)).join(", ")}. Enter opens it.`);
  const frame = box ? null : pane.frameAt(event.offsetX, event.offsetY);
  const [, y] = pane.camera.toPlane(event.offsetX, event.offsetY);
  if (frame && y < frame.y + HEADER) pane.toggleGroup(frame);
}

// Opens or closes a group, or goes into the body of a loop or branch.
function enter(pane, box) {
  if (box?.scene) return pane.toggleGroup(box);
  if (!box?.key) return undefined;
  const [tag] = page.node(box.key).bodies;
  return tag ? pane.show(`${box.key}/${tag}`) : undefined;
}
