// Scenes: what is drawn of a graph. The file has them as columns; here they become objects.

function readScenes(graph) {
  const { scene: drawing } = graph;
  const scenes = drawing.scenes.map((scene) => readScene(scene, drawing, graph));
  return { font: drawing.font, flat: drawing.flat, scenes };
}

function readScene(scene, drawing, graph) {
  const columns = scene.boxes;
  const boxes = columns.x.map((x, at) => ({
    x,
    y: columns.y[at],
    width: columns.width[at],
    height: columns.height[at],
    kind: drawing.kinds[columns.kind[at]],
    change: drawing.changes[columns.change[at]],
    key: columns.node[at] < 0 ? null : `${graph.key}/${columns.node[at]}`,
    scene: columns.scene[at],
    lines: columns.lines[at].map((text, line) => ({
      text,
      style: drawing.styles[Number(columns.styles[at][line])],
      size: drawing.font.sizes[Number(columns.styles[at][line])],
    })),
  }));
  return { title: scene.title, width: scene.width, height: scene.height, boxes, links: readLinks(scene) };
}

function readLinks(scene) {
  const columns = scene.links;
  return columns.points.map((points, at) => ({
    source: columns.source[at],
    target: columns.target[at],
    sourcePort: columns.source_port[at],
    targetPort: columns.target_port[at],
    node: columns.node[at],
    output: columns.output[at],
    label: scene.labels[columns.label[at]],
    points,
  }));
}

// What a pane draws: boxes and links in one plane, the frames of open groups, and where a layer is.
class View {
  constructor(width, height, boxes, links, frames = []) {
    Object.assign(this, { width, height, boxes, links, frames });
    this.places = new Map(boxes.filter((box) => box.key !== null).map((box) => [box.key, box]));
    for (const link of links) link.bounds = boundsOf(link.points);
  }
}

function boundsOf(points) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    bounds[0] = Math.min(bounds[0], points[at]);
    bounds[1] = Math.min(bounds[1], points[at + 1]);
    bounds[2] = Math.max(bounds[2], points[at]);
    bounds[3] = Math.max(bounds[3], points[at + 1]);
  }
  return bounds;
}

// The box in which a layer is seen: its own, or that of the first reader of a folded constant.
function placeOf(view, key) {
  const own = view.places.get(key);
  if (own) return own;
  const node = page.node(key);
  const seen = new Set();
  const todo = node ? [node] : [];
  while (todo.length) {
    const next = todo.pop();
    if (seen.has(next.key)) continue;
    seen.add(next.key);
    const box = view.places.get(next.key);
    if (box) return box;
    if (next.constant) todo.push(...next.users.map(([id]) => page.node(`${next.graph}/${id}`)));
  }
  return null;
}
