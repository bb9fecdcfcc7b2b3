// The one drawing routine of a graph: panes, SVG files and printed pages all come from here.
// `look` says what is painted how: palette, zoom, the visible rectangle, selected and near layers.

const TEXT_FROM = 0.5; // zoom at which text is large enough to be read
const SHAPES_FROM = 0.22; // below it there are no arrows, badges or round corners

const CATEGORIES = [
  ["convolution", /Convolution|MatMul|LSTM|GRU|RNN|Attention|FullyConnected/],
  ["pooling", /Pool|Reduce|Normaliz|Norm|MVN|LRN|SoftMax|Softmax/i],
  ["movement", new RegExp("Reshape|Transpose|Concat|Split|Slice|Pad|queeze|Gather|Scatter|Tile|"
    + "DepthToSpace|SpaceToDepth|Broadcast|ZeroInsertion|Interpolate|ShapeOf|Shuffle|Reverse|Roll")],
  ["control", /^(Loop|If|TensorIterator|ReadValue|Assign)$/],
];
const categories = new Map();

// Which family an operation is of; the stripe of a box has its colour.
function categoryOf(type) {
  if (!categories.has(type)) {
    const found = CATEGORIES.find(([, pattern]) => pattern.test(type));
    categories.set(type, found ? found[0] : "arithmetic");
  }
  return categories.get(type);
}

function drawView(painter, view, look) {
  const boxes = view.boxes.filter((box) => inside(box, look.visible));
  for (const frame of view.frames) if (inside(frame, look.visible)) drawFrame(painter, frame, look);
  drawHalos(painter, look);
  drawLinks(painter, view, look);
  if (look.zoom < TEXT_FROM) drawFar(painter, boxes, look);
  else for (const box of boxes) drawBox(painter, box, look);
  drawMarks(painter, look);
  if (look.zoom < SHAPES_FROM) return;
  for (const box of boxes) {
    drawBadge(painter, box, look.palette);
    drawNumber(painter, box, look);
  }
  if (look.zoom < TEXT_FROM) return;
  for (const link of view.links) if (link.begins && inView(link, look)) drawLabel(painter, link, look);
  for (const frame of view.frames) if (inside(frame, look.visible)) drawFrameTitle(painter, frame, look);
}

function inView({ bounds: [left, top, right, bottom] }, { visible: [x0, y0, x1, y1] }) {
  return left <= x1 && top <= y1 && right >= x0 && bottom >= y0;
}

function inside(box, [left, top, right, bottom]) {
  return box.x <= right && box.y <= bottom && box.x + box.width >= left && box.y + box.height >= top;
}

// Without text a box is its colour, and few strokes do for many boxes.
function drawFar(painter, boxes, look) {
  const radius = look.zoom < SHAPES_FROM ? 0 : 6;
  for (const box of boxes) {
    const fill = look.hits.has(box) ? look.palette.hit : farColour(box, look);
    painter.box(box.x, box.y, box.width, box.height, radius, { fill });
  }
}

function farColour(box, look) {
  const painted = look.colour(box);
  if (painted) return painted;
  if (box.change !== "same") return look.palette[box.change];
  if (box.kind === "deconvolution") return look.palette.deconvolution;
  return box.key === null ? look.palette.edge : look.palette[stripeOf(box)];
}

function stripeOf(box) {
  if (box.kind === "input" || box.kind === "output") return "ending";
  if (box.kind === "deconvolution") return "deconvolution";
  const node = box.key === null ? null : page.node(box.key);
  return node ? categoryOf(node.type) : "other";
}

function drawLinks(painter, view, look) {
  const shown = view.links.filter((link) => inView(link, look));
  const near = shown.filter((link) => look.isNear(link));
  const width = Math.max(1, 0.7 / look.zoom);
  painter.curves(shown.map((link) => link.points), { stroke: look.palette.edge, width });
  painter.curves(near.map((link) => link.points), { stroke: look.palette.accent, width: 2 * width });
  if (look.zoom < SHAPES_FROM) return;
  for (const link of shown) if (link.ends) drawArrow(painter, link, look);
}

function drawArrow(painter, link, look) {
  const [x, y] = link.points.slice(-2);
  const colour = look.isNear(link) ? look.palette.accent : look.palette.edge;
  painter.polygon([[x, y], [x - 3.5, y - 7], [x + 3.5, y - 7]], { fill: colour });
}

function drawLabel(painter, link, look) {
  if (!link.label) return;
  const [x, y] = link.points.slice(0, 2);
  const style = { size: look.font.label, family: look.font.family, fill: look.palette.quiet, halo: look.palette.ground };
  painter.text(link.label, x + 4, y + look.font.label + 3, style);
}

function drawFrame(painter, frame, look) {
  const { palette } = look;
  const width = Math.max(1, 0.7 / look.zoom);
  const style = { fill: palette.group, stroke: palette.line, width };
  painter.box(frame.x, frame.y, frame.width, frame.height, 8, style);
}

function drawFrameTitle(painter, frame, { font, palette }) {
  const style = { size: font.label, family: font.family, fill: palette.quiet, weight: 600, halo: palette.group };
  const title = shortened(frame.title, Math.floor((frame.width - 16) / font.label / font.advance) - 2);
  painter.text(`\u2212 ${title}`, frame.x + 10, frame.y + font.label + 5, style);
}

const BORDERS = {
  same: { width: 1, dash: [] },
  added: { width: 2, dash: [] },
  rewritten: { width: 2, dash: [7, 3] },
  removed: { width: 2, dash: [2, 3] },
};

function drawBox(painter, box, look) {
  const { palette } = look;
  const painted = look.colour(box);
  const fill = painted ?? fillOf(box, palette);
  const stroke = box.change === "same" ? palette.line : palette[box.change];
  const radius = box.kind === "input" || box.kind === "output" ? box.height / 2 : 5;
  if (box.scene) painter.box(box.x + 4, box.y + 4, box.width, box.height, 5, { fill, stroke });
  painter.box(box.x, box.y, box.width, box.height, radius, { fill, stroke, ...BORDERS[box.change] });
  if (radius === 5) drawStripe(painter, box, look);
  drawText(painter, box, look, painted);
}

function fillOf(box, palette) {
  if (box.kind === "group" || box.kind === "repeat" || box.kind === "body") return palette.raised;
  return palette.surface;
}

function drawStripe(painter, box, look) {
  const fill = look.palette[stripeOf(box)];
  painter.box(box.x + 1, box.y + 4, 4, box.height - 8, 2, { fill });
}

function drawText(painter, box, look, painted) {
  const { font, palette } = look;
  const [, above] = font.padding;
  const { text, quiet } = painted ? { text: textOn(painted), quiet: textOn(painted) } : palette;
  let y = box.y + above + font.line * 0.78;
  for (const line of box.lines) {
    const strong = line.style === "type";
    const style = { size: line.size, family: font.family, align: "center" };
    Object.assign(style, { weight: strong ? 600 : 400, fill: strong ? text : quiet });
    painter.text(line.text, box.x + box.width / 2, y, style);
    y += font.line;
  }
}

// Shapes as well as colours tell what changed: a plus, a diamond, a minus.
function drawBadge(painter, box, palette) {
  if (box.change === "same") return;
  const [x, y] = [box.x + box.width - 2, box.y + 2];
  const [fill, ink] = [palette[box.change], palette.ground];
  if (box.change === "rewritten") {
    painter.polygon([[x, y - 8], [x + 8, y], [x, y + 8], [x - 8, y]], { fill, stroke: ink });
    painter.circle(x, y, 2, { fill: ink });
    return;
  }
  if (box.change === "added") painter.circle(x, y, 7, { fill, stroke: ink });
  else painter.box(x - 7, y - 7, 14, 14, 0, { fill, stroke: ink });
  painter.box(x - 4, y - 1, 8, 2, 0, { fill: ink });
  if (box.change === "added") painter.box(x - 1, y - 4, 2, 8, 0, { fill: ink });
}

function around(painter, box, gap, style) {
  painter.box(box.x - gap, box.y - gap, box.width + 2 * gap, box.height + 2 * gap, 5 + gap, style);
}

// What belongs to the selected layer has a halo, also far away.
function drawHalos(painter, look) {
  const gap = Math.max(7, 3 / look.zoom);
  for (const box of look.related) around(painter, box, gap, { fill: look.palette.related });
}

// Outlines above everything: what a search found, what is selected.
function drawMarks(painter, look) {
  const width = Math.max(2.5, 2 / look.zoom);
  const gap = width / 2 + 0.5;
  const hits = look.zoom < TEXT_FROM ? [] : look.hits;
  for (const box of hits) around(painter, box, gap, { stroke: look.palette.hit, width });
  if (look.selected) around(painter, look.selected, gap, { stroke: look.palette.accent, width });
}
