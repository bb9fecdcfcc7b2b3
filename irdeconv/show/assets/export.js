// The graph as an SVG file, and the page on paper: the same drawing, by the other painter.

// `area` is the part of the plane, as [left, top, width, height]; only what is seen in it is written.
function svgOf(view, font, palette, title, area = [0, 0, view.width, view.height], scale = 1) {
  const painter = new SvgPainter();
  const [left, top, width, height] = area;
  drawView(painter, view, {
    palette, font, visible: [left, top, left + width, top + height],
    zoom: 1, selected: null, hits: new Set(), related: new Set(), colour: overlayColour, isNear: () => false,
  });
  return painter.document(area, scale, palette.ground, title);
}

const SHEET = [690, 820]; // pixels of a sheet of paper that a picture may take
const SHEET_SCALE = 0.5; // at which text can still be read on paper

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
  parts.push(...panes.all.map(sheetFigure));
  if (page.selected) {
    const details = make("section", "side-content");
    changeNote(details, page.selected);
    showDetails(details, page.selected);
    parts.push(details);
  }
  parts.push(...panes.all.map((pane) => sheetTable(pane.graph)));
  sheet.replaceChildren(...parts);
}

// A long graph is cut into strips that stand beside one another, so that its text can be read.
function sheetFigure({ view, state, graph }) {
  const [wide, high] = SHEET;
  const whole = Math.min(1, wide / view.width, high / view.height);
  const scale = Math.max(whole, Math.min(SHEET_SCALE, wide / view.width));
  const figure = make("figure");
  figure.append(make("figcaption", "", graph.title));
  const step = high / scale;
  for (let top = 0; top < view.height; top += step) {
    const area = [0, top, view.width, Math.min(step, view.height - top)];
    const svg = svgOf(view, state.scenes.font, theme.palette("light"), graph.title, area, scale);
    const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    figure.append(document.importNode(picture, true));
  }
  return figure;
}

function sheetTable(graph) {
  const columns = table.columns;
  const sheet = make("table", "sheet");
  sheet.createCaption().textContent = `Layers: ${graph.title}`;
  const head = sheet.createTHead().insertRow();
  for (const { title } of columns) head.append(make("th", "", title));
  const body = sheet.createTBody();
  for (const node of graph.nodes.values()) {
    if (node.constant) continue;
    const row = body.insertRow();
    for (const column of columns) {
      const look = `col-${column.title} ${column.number ? "number" : ""}`;
      row.append(make("td", look, shortened(column.text(node), 200)));
    }
  }
  return sheet;
}

window.addEventListener("beforeprint", writeSheet);
window.addEventListener("afterprint", () => document.getElementById("print").replaceChildren());
