// The graph as an SVG file, and the page on paper: the same drawing, by the other painter.

function svgOf(view, font, palette, title) {
  const painter = new SvgPainter();
  const visible = [-Infinity, -Infinity, Infinity, Infinity];
  drawView(painter, view, {
    palette, visible, font, zoom: 1, selected: null, hits: [], related: [],
    colour: overlayColour, isNear: () => false,
  });
  return painter.document(view.width, view.height, palette.ground, title);
}

// Saves the picture of the active pane's graph, as it is opened and coloured there.
function downloadSvg() {
  const { view, state, graph } = panes.active;
  const text = svgOf(view, state.scenes.font, theme.palette(), page.data.title);
  const name = `${page.data.title} ${graph.title}`.replace(/[^\w.-]+/g, "_").slice(0, 80);
  const link = make("a");
  link.download = `${name}.svg`;
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  announce(`Saved ${name}.svg`);
}

// A sheet has the graphs, the selected layer, and the table of layers without constants.
function writeSheet() {
  const sheet = document.getElementById("print");
  const parts = [make("h1", "", visible(page.data.title)), totals()];
  for (const pane of panes.all) {
    const svg = svgOf(pane.view, pane.state.scenes.font, theme.palette("light"), pane.graph.title);
    const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    const figure = make("figure");
    figure.append(make("figcaption", "", pane.graph.title), document.importNode(picture, true));
    parts.push(figure);
  }
  if (page.selected) {
    const details = make("section", "side-content");
    changeNote(details, page.selected);
    showDetails(details, page.selected);
    parts.push(details);
  }
  parts.push(...panes.all.map((pane) => sheetTable(pane.graph)));
  sheet.replaceChildren(...parts);
}

function sheetTable(graph) {
  const columns = table.columns;
  const sheet = make("table", "sheet");
  sheet.createCaption().textContent = `Layers ${graph.title}`;
  const head = sheet.createTHead().insertRow();
  for (const { title } of columns) head.append(make("th", "", title));
  const body = sheet.createTBody();
  for (const node of graph.nodes.values()) {
    if (node.constant) continue;
    const row = body.insertRow();
    for (const column of columns) row.append(make("td", column.number ? "number" : "", shortened(column.text(node), 200)));
  }
  return sheet;
}

window.addEventListener("beforeprint", writeSheet);
window.addEventListener("afterprint", () => document.getElementById("print").replaceChildren());
