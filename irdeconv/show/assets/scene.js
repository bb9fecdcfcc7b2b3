// Scenes: what is drawn of a graph. The file has them as columns; here they become objects.

function readScenes(graph) {
  const { scene: drawing } = graph;
  const scenes = drawing.scenes.map((scene) => readScene(unfolded(scene), drawing, graph));
  if (drawing.flat) gatherMembers(scenes, 0);
  return { font: drawing.font, flat: drawing.flat, scenes };
}

// Gives every group the keys of all layers in it, and returns those of a scene.
function gatherMembers(scenes, number) {
  return scenes[number].boxes.flatMap((box) => {
    if (box.scene) return (box.members = gatherMembers(scenes, box.scene));
    return box.key === null || box.kind === "port" ? [] : [box.key];
  });
}

// A column with one value for all is written as that value.
function unfolded(scene) {
  const all = (columns, count) => Object.fromEntries(Object.entries(columns).map(([name, column]) => (
    [name, Array.isArray(column) ? column : new Array(count).fill(column)])));
  const { boxes, links } = scene;
  return { ...scene, boxes: all(boxes, boxes.x.length), links: all(links, links.x.length) };
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
    lines: page.data.shared[columns.lines[at]].map((text, line) => ({
      text,
      style: drawing.styles[Number(columns.styles[at][line])],
      size: drawing.font.sizes[Number(columns.styles[at][line])],
    })),
  }));
  return { title: scene.title, width: scene.width, height: scene.height, boxes, links: readLinks(scene) };
}

function readLinks(scene) {
  const columns = scene.links;
  return columns.x.map((x, at) => ({
    source: columns.source[at],
    target: columns.target[at],
    sourcePort: columns.source_port[at],
    targetPort: columns.target_port[at],
    node: columns.node[at],
    output: columns.output[at],
    label: scene.labels[columns.label[at]],
    points: walked(x, columns.y[at], page.data.shared[columns.steps[at]]),
  }));
}

// Points are written as a first one, and the steps from each to the next.
function walked(x, y, steps) {
  const points = [x, y, ...steps];
  for (let at = 2; at < points.length; at += 1) points[at] += points[at - 2];
  return points;
}

// What a pane draws: boxes and links in one plane, the frames of open groups, and where a layer or
// a closed group is.
class View {
  constructor(width, height, { boxes, links, frames }) {
    Object.assign(this, { width, height, boxes, links, frames });
    this.places = new Map(boxes.filter((box) => box.key !== null).map((box) => [box.key, box]));
    this.groups = new Map(boxes.filter((box) => box.scene).map((box) => [box.scene, box]));
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

// The box in which a layer is seen: its own, that of the closed group around it, or that of the
// first reader of a folded constant.
function placeOf(view, ways, key) {
  const seen = new Set();
  const todo = [key];
  while (todo.length) {
    const next = todo.pop();
    if (seen.has(next)) continue;
    seen.add(next);
    const box = view.places.get(next) ?? closedAround(view, ways.get(next));
    if (box) return box;
    const node = page.node(next);
    if (node?.constant) todo.push(...node.users.map(([id]) => `${node.graph}/${id}`));
  }
  return null;
}

function closedAround(view, way = []) {
  return view.groups.get(way.find((scene) => view.groups.has(scene)));
}

// The layer whose box stands for another: a folded constant stands in its reader.
function drawnKey(ways, view, key) {
  const node = page.node(key);
  const shown = view.places.has(key) || ways.has(key);
  if (shown || !node?.constant || !node.users.length) return key;
  const [[reader]] = node.users;
  return drawnKey(ways, view, `${node.graph}/${reader}`);
}
