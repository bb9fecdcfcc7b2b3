// The state of the page: the data, the selected layer, and who wants to know of a change.

// Errors are shown, or nobody would know why the page does not answer.
function reportError(message) {
  const strip = document.getElementById("errors");
  strip.hidden = false;
  const line = document.createElement("p");
  line.textContent = `This page has a fault: ${message}`;
  strip.append(line);
}

window.addEventListener("error", (event) => reportError(event.message));
window.addEventListener("unhandledrejection", (event) => reportError(String(event.reason)));

const USUAL = {
  place: "", macs: 0, bytes: 0, parameters: 0, deconvolution: false,
  constant: false, memory: 0, change: "same", number: null,
};

// What many layers have alike is written once, in a list of the page.
function unshared(given, shared) {
  const [type, version, attributes] = shared[given.op];
  const out = { ...given, type, version: version ?? "", attributes: attributes ?? {} };
  if (out.outputs !== undefined) out.outputs = shared[out.outputs];
  if (out.inputs) out.inputs = out.inputs.map(([producer, port, spec]) => [producer, port, shared[spec]]);
  return out;
}

// A layer as the page has it: usual fields are filled in, `key` names it on the whole page.
// `users` has [consumer, its input port, our output port] of every reader.
function fullNode(graph, given) {
  const lists = { inputs: [], outputs: [], origins: [], tensors: [], bodies: [], users: [] };
  const node = { ...USUAL, ...lists, ...given };
  node.graph = graph.key;
  node.key = `${graph.key}/${node.id}`;
  return node;
}

function readGraph(given, before, shared) {
  const graph = { ...given, nodes: new Map() };
  for (const item of given.nodes) {
    const content = typeof item === "number" ? before.get(item) : item;
    const node = fullNode(graph, unshared(content, shared));
    graph.nodes.set(node.id, node);
  }
  for (const node of graph.nodes.values()) {
    node.inputs.forEach(([producer, port], at) => {
      graph.nodes.get(producer)?.users.push([node.id, at, port]);
    });
  }
  return graph;
}

// What the file has once stands for both sides: `before` are the plain layers of the first graph.
function readGraphs({ graphs: given, shared }) {
  const first = given.find((graph) => graph.key === "before");
  const before = new Map((first ? first.nodes : []).map((node) => [node.id, node]));
  return new Map(given.map((graph) => [graph.key, readGraph(graph, before, shared)]));
}

const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const graphs = readGraphs(data);
  const listeners = { select: [], repaint: [] };
  let selected = null;

  function node(key) {
    const cut = key === null ? -1 : key.lastIndexOf("/");
    const graph = cut < 0 ? undefined : graphs.get(key.slice(0, cut));
    return graph?.nodes.get(Number(key.slice(cut + 1))) ?? null;
  }

  // `how.quiet` leaves the panes where they are: the reader is looking at the layer already.
  function select(key, how = {}) {
    const found = node(key);
    selected = found ? found.key : null;
    for (const listener of listeners.select) listener(selected, how);
    page.repaint();
  }

  let asked = false;
  // Paints once before the next frame, however often it is asked.
  function repaint() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      for (const listener of listeners.repaint) listener();
    });
  }

  return {
    data,
    graphs,
    node,
    select,
    repaint,
    get selected() { return selected; },
    onSelect: (listener) => listeners.select.push(listener),
    onRepaint: (listener) => listeners.repaint.push(listener),
  };
})();

// The graphs that are no bodies: one, or before and after.
function roots() {
  return [...page.graphs.values()].filter((graph) => !graph.parent);
}
