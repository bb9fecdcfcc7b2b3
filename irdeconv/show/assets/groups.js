// Groups opened in place. Every scene is laid out alone; where a group is open, its scene takes
// the place of its box and the plane around is stretched, so that nothing changes its order.

const HEADER = 20; // pixels above an open group's scene, for its title

// What is drawn of scenes: all without groups, or the outermost scene with some groups open.
function viewOf(scenes, { flat, open }) {
  const plane = { boxes: [], links: [], frames: [] };
  const size = placeScene(scenes, flat ? scenes.flat : 0, flat ? new Set() : open, 0, 0, plane);
  return new View(size.width, size.height, plane);
}

// The size of a scene with what is open in it, and how far its places move.
function measureScene(scenes, number, open) {
  const scene = scenes.scenes[number];
  const inner = new Map();
  for (const box of scene.boxes) {
    if (box.scene && open.has(box.scene)) inner.set(box, measureScene(scenes, box.scene, open));
  }
  const grown = [...inner].map(([box, size]) => ({ box, width: size.width, height: size.height + HEADER }));
  const moveX = stretch(grown.map(({ box, width }) => [box.x, box.x + box.width, width]));
  const moveY = stretch(grown.map(({ box, height }) => [box.y, box.y + box.height, height]));
  const width = scene.width + moveX(scene.width);
  return { scene, inner, moveX, moveY, width, height: scene.height + moveY(scene.height) };
}

// How far a place moves when each interval [from, to] gets at least a new length. What lies
// behind an interval moves by all that it grew, what lies inside by a part of that.
function stretch(intervals) {
  const pieces = [];
  const move = (at) => pieces.reduce((sum, { from, to, by }) => (
    sum + by * Math.min(1, Math.max(0, (at - from) / (to - from)))), 0);
  for (const [from, to, length] of intervals.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    const by = length - (to + move(to) - from - move(from));
    if (by > 0) pieces.push({ from, to, by });
  }
  return move;
}

function placeScene(scenes, number, open, left, top, plane) {
  const size = measureScene(scenes, number, open);
  const placed = size.scene.boxes.map((box) => placeBox(box, size, left, top));
  const ports = size.scene.boxes.map((box, at) => {
    const inner = size.inner.get(box);
    if (!inner) {
      if (box.kind !== "port") plane.boxes.push(placed[at]);
      return null;
    }
    const { x, y } = placed[at];
    plane.frames.push({ ...placed[at], title: inner.scene.title });
    return placeScene(scenes, box.scene, open, x, y + HEADER, plane).places;
  });
  for (const link of size.scene.links) plane.links.push(placeLink(link, size, placed, ports, left, top));
  return { width: size.width, height: size.height, places: placed };
}

// A box moves by the mean of its two ends, so what was in one line stays in one line.
function placeBox(box, { inner, moveX, moveY }, left, top) {
  const open = inner.get(box);
  const width = open ? open.width : box.width;
  const height = open ? open.height + HEADER : box.height;
  const middleX = box.x + box.width / 2 + (moveX(box.x) + moveX(box.x + box.width)) / 2;
  const middleY = box.y + box.height / 2 + (moveY(box.y) + moveY(box.y + box.height)) / 2;
  return { ...box, x: left + middleX - width / 2, y: top + middleY - height / 2, width, height };
}

// The first and last two points of a link move along with the boxes at its ends.
function placeLink(link, { scene, moveX, moveY }, placed, ports, left, top) {
  const points = [];
  for (let at = 0; at < link.points.length; at += 2) {
    const [x, y] = [link.points[at], link.points[at + 1]];
    points.push(left + x + moveX(x), top + y + moveY(y));
  }
  const last = points.length - 2;
  const half = points.length === 4 ? 0 : 2;
  tieEnd(points, [0, half], endOf(link, "source", scene, placed, ports));
  tieEnd(points, [last, last - half], endOf(link, "target", scene, placed, ports));
  const [source, target] = [placed[link.source], placed[link.target]];
  // Of the pieces of a link through the borders of groups the first has the label, the last the arrow.
  const [begins, ends] = [[source, link.source], [target, link.target]].map(([box, number]) => (
    box.kind !== "port" && !ports[number]));
  return { ...link, points, source, target, begins, ends, bounds: boundsOf(points) };
}

// Where a link ends: at the port inside an open group, else at the edge of the box as before.
function endOf(link, end, scene, placed, ports) {
  const number = link[end];
  const port = end === "source" ? link.sourcePort : link.targetPort;
  if (ports[number] && port >= 0) {
    const { x, y } = ports[number][port];
    return { x, y };
  }
  const at = end === "source" ? 0 : link.points.length - 2;
  const [old, now] = [scene.boxes[number], placed[number]];
  const down = link.points[at + 1] - old.y;
  return {
    x: now.x + now.width / 2 + link.points[at] - old.x - old.width / 2,
    y: now.y + (down > old.height / 2 ? now.height + down - old.height : down),
  };
}

function tieEnd(points, [first, second], { x, y }) {
  points[first] = x;
  points[first + 1] = y;
  points[second] = x;
}

// By layer: the groups around it, the outermost first.
function waysOf(scenes) {
  const ways = new Map();
  const enter = (number, way) => {
    for (const box of scenes.scenes[number].boxes) {
      if (box.scene) enter(box.scene, [...way, box.scene]);
      else if (box.key !== null && box.kind !== "port") ways.set(box.key, way);
    }
  };
  if (scenes.flat) enter(0, []);
  return ways;
}
