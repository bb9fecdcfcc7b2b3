// What the page says of one layer.

// Adds the facts of a layer to a container.
function showDetails(container, key) {
  const node = page.node(key);
  container.append(make("h2", "layer-name", shownName(node)));
  container.append(make("p", "layer-type", visible(`${node.type} (${node.version})`)));
  factList(container, node);
  linkList(container, "Inputs", node.inputs.map(([id, port, spec]) => [`${node.graph}/${id}`, port, spec]));
  linkList(container, "Read by", node.users.map(([id, port]) => [`${node.graph}/${id}`, port, ""]));
}

function factList(container, node) {
  const list = make("dl", "facts");
  const facts = [
    ...node.outputs.map((spec, at) => [node.outputs.length > 1 ? `output ${at}` : "output", spec]),
    ["parameters", node.parameters ? grouped(node.parameters) : ""],
    ["MACs", node.macs === 0 ? "" : grouped(node.macs)],
    ["place", node.place],
    ...Object.entries(node.attributes),
  ];
  for (const [term, text] of facts) {
    if (text === "") continue;
    list.append(make("dt", "", visible(term)), make("dd", "", visible(text)));
  }
  container.append(list);
}

function linkList(container, title, entries) {
  if (!entries.length) return;
  const list = make("ul", "links");
  for (const [key, port, spec] of entries) {
    const item = make("li");
    item.append(layerLink(key), make("span", "quiet", ` ${port ? `:${port} ` : ""}${visible(spec)}`));
    list.append(item);
  }
  container.append(make("h3", "", title), list);
}
