// What the page says of one layer.

// Adds the facts of a layer to a container.
function showDetails(container, key) {
  const node = page.node(key);
  const found = detailOf(node);
  container.append(breakable(make("h2", "layer-name"), shownName(node)));
  container.append(make("p", "layer-type", visible(`${node.type} (${node.version})`)));
  factList(container, node, found);
  showValues(container, key);
  attributeList(container, node);
  constantDetail(container, found);
  linkList(container, "Inputs", node.inputs.map(([id, port, spec]) => [`${node.graph}/${id}`, port, spec]));
  linkList(container, "Read by", node.users.map(([id, port]) => [`${node.graph}/${id}`, port, ""]));
  deconvolutionDetail(container, node, found);
}

// A layer that lowering left alone is described with the first graph.
function detailOf(node) {
  return ofLayer(page.data.details, node.key) ?? {};
}

function factList(container, node, found) {
  const facts = [
    ...node.outputs.map((spec, at) => [node.outputs.length > 1 ? `output ${at}` : "output", spec]),
    ["declared in the file", (found.declared ?? []).join(", ")],
    ["parameters", node.parameters ? grouped(node.parameters) : ""],
    ["bytes of constants", node.bytes ? grouped(node.bytes) : ""],
    ["MACs", node.macs === 0 ? "" : grouped(node.macs)],
    ["tensors", node.tensors.join(", ")],
    ["made of", node.origins.join(", ")],
    ...Object.entries(found.info ?? {}).map(([name, text]) => [name, text || "yes"]),
  ];
  const list = definitions(facts.filter(([, text]) => text !== ""));
  if (node.place) list.append(make("dt", "", "place"), placeText(node.place));
  container.append(list);
}

// A path breaks behind its slashes, and within a name only if that is longer than a line.
function placeText(place, tag = "dd") {
  const text = make(tag, "place");
  for (const part of visible(place).match(/[^/]*\/|[^/]+$/g)) {
    text.append(make("span", "", part), make("wbr"));
  }
  return text;
}

function attributeList(container, node) {
  const attributes = Object.entries(node.attributes);
  if (!attributes.length) return;
  const kind = `${node.type} ${node.version}`;
  const { defaults } = page.data.details;
  const usual = defaults && Object.hasOwn(defaults, kind) ? defaults[kind] : {};
  const list = make("dl", "facts attributes");
  const changed = new Set(differencesOf(changeOf(node.key)).map(([name]) => name));
  for (const [name, text] of attributes) {
    const value = make("dd", changed.has(name) ? "differs" : "", visible(text === "" ? "(empty)" : text));
    if (Object.hasOwn(usual, name) && usual[name] === text) value.append(make("span", "quiet", " (default)"));
    list.append(make("dt", "", visible(name)), value);
  }
  container.append(make("h3", "", "Attributes"), list);
}

const MOST_LINKS = 40;

function linkList(container, title, entries) {
  if (!entries.length) return;
  const list = make("ul", "links");
  for (const [key, port, spec] of entries.slice(0, MOST_LINKS)) {
    const item = make("li");
    item.append(layerLink(key), make("span", "quiet", ` ${port ? `:${port} ` : ""}${visible(spec)}`));
    list.append(item);
  }
  container.append(make("h3", "", title), list);
  const more = entries.length - MOST_LINKS;
  if (more > 0) container.append(make("p", "quiet", `and ${grouped(more)} more`));
}

// The values of a small constant, or least, greatest and mean with a histogram.
function constantDetail(container, found) {
  if (found.values !== undefined) {
    container.append(make("h3", "", "Values"), make("p", "constant-values", visible(found.values)));
  }
  if (found.min === undefined) return;
  const facts = [
    ["min", found.min], ["mean", found.mean], ["max", found.max],
    ["zeros", found.zeros], ["not finite", found.odd],
  ].filter(([, value]) => value !== undefined);
  const list = definitions(facts.map(([term, value]) => [term, grouped(value)]));
  container.append(make("h3", "", "Values"), list);
  if (found.histogram) container.append(histogramPicture(found));
}

// Bars of the heights that the digits tell, base 36.
function histogramPicture(found) {
  const [width, height] = [10, 48];
  const bars = [...found.histogram];
  const label = `Histogram from ${found.min} to ${found.max}`;
  const svg = shape("svg", { class: "histogram", width: bars.length * width, height, role: "img", "aria-label": label });
  bars.forEach((digit, at) => {
    const tall = (parseInt(digit, 36) / 35) * height;
    svg.append(shape("rect", { x: at * width, y: height - tall, width: width - 1, height: tall }));
  });
  return svg;
}

function deconvolutionDetail(container, node, found) {
  if (!found.explain) return;
  if (found.axes) {
    container.append(make("h3", "", "One axis, drawn"));
    container.append(axisSection(found.axes, node));
  }
  if (found.overlap) {
    container.append(make("h3", "", "Overlap: how many taps reach each output"));
    for (const sentence of found.overlap) container.append(make("p", "", sentence));
    if (found.axes) container.append(scrolled(overlapPicture(found.axes.map((row) => new AxisAnatomy(row)))));
  }
  proofNote(container, node);
  if (found.costs) container.append(make("h3", "", "What each form costs"), costTable(node, found.costs));
  const more = make("details", "explain");
  more.append(make("summary", "", "Sizes and pads explained, and what other systems compute"));
  more.append(make("pre", "", found.explain.split("\n").map(visible).join("\n")));
  container.append(more);
}

// What a certificate says stands with the change; here, how to get one.
function proofNote(container, node) {
  const change = changeOf(node.key);
  if (!change || !change.form || change.certificate) return;
  container.append(make("h3", "", "Proof"));
  container.append(make("p", "", "Nothing is proved on this page: irdeconv lower --certify proves every lowered layer."));
}

function scrolled(element) {
  const frame = make("div", "scrolled");
  frame.append(element);
  return frame;
}

// Axes that are drawn alike share a button.
function distinctAxes(rows) {
  const found = new Map();
  rows.forEach((row, at) => {
    const axis = new AxisAnatomy(row);
    const drawn = axis.shortened();
    const key = JSON.stringify([drawn.size, row.slice(1)]);
    const known = found.get(key) ?? { whole: axis, drawn, axes: [], sizes: [] };
    known.axes.push(at);
    known.sizes.push(row[0]);
    found.set(key, known);
  });
  return [...found.values()];
}

const isOpen = (size) => typeof size === "string";

// The drawn axis with its buttons; `room` is how wide it may be.
function axisSection(rows, node, room = 0) {
  const section = make("div", "axis");
  const buttons = make("div", "axis-buttons");
  const body = make("div");
  const found = distinctAxes(rows);
  const open = (entry) => {
    for (const other of buttons.querySelectorAll("[aria-pressed]")) {
      other.setAttribute("aria-pressed", String(other.dataset.axes === String(entry.axes)));
    }
    body.replaceChildren(...axisParts(entry, room || document.getElementById("side").clientWidth - 34));
  };
  for (const entry of found) {
    const label = `${entry.axes.length > 1 ? "axes" : "axis"} ${entry.axes.join(", ")}`;
    const choice = button(label, `Draw ${label}`, () => open(entry));
    choice.dataset.axes = String(entry.axes);
    choice.setAttribute("aria-pressed", "false");
    buttons.append(choice);
  }
  if (!room) buttons.append(button("Enlarge", "Draw the axis larger", () => enlarge(rows, node)));
  section.append(buttons, body);
  open(found[0]);
  return section;
}

function axisParts({ whole, drawn, sizes }, room) {
  const parts = [make("p", "quiet", axisNumbers(drawn, sizes))];
  if (sizes.some(isOpen)) {
    const picture = make("div");
    const draw = (size) => picture.replaceChildren(...axisPicture(whole.sized(size), room, whole.symbols));
    parts.push(askSize(drawn.size, draw, whole, sizes), picture);
    draw(drawn.size);
    return parts;
  }
  if (sizes.some((size) => size !== drawn.size)) {
    const names = [...new Set(sizes.map(grouped))].join(" and ");
    parts.push(make("p", "quiet", `Drawn with ${drawn.size} of ${names} elements.`));
  }
  parts.push(...axisPicture(drawn, room));
  if (sizes[0] !== drawn.size) parts.push(askOutput(whole));
  return parts;
}

// The picture, and the line that explains the cell under the pointer.
function axisPicture(drawn, room, symbols = {}) {
  const line = make("p", "axis-line");
  line.setAttribute("aria-live", "polite");
  const view = new AxisView(drawn, room, (text) => { line.textContent = text; }, symbols);
  const parts = [];
  const left = drawn.everything[1] - drawn.everything[0] - (drawn.shown[1] - drawn.shown[0]);
  if (left > 0) parts.push(make("p", "quiet", `${grouped(left)} positions are left out.`));
  const frame = scrolled(view.svg);
  const both = make("div", "axis-frame");
  both.append(view.labels, frame);
  // In a narrow frame the pads alone would show.
  requestAnimationFrame(() => { frame.scrollLeft = view.middle - frame.clientWidth / 2; });
  return [...parts, both, line];
}

// The number of outputs of an open axis, and the number of elements to draw instead of n.
function askSize(size, draw, { outputFormula }, sizes) {
  const form = make("p", "ask-size");
  const field = make("input");
  Object.assign(field, { type: "number", min: 1, max: DRAWN.positions, value: size });
  const label = make("label", "", "Drawn with n = ");
  field.addEventListener("input", () => field.value && field.checkValidity() && draw(Number(field.value)));
  label.append(field);
  const open = [...new Set(sizes)].filter(isOpen).join(" / ");
  form.append(`n is ${open}; n inputs give ${outputFormula} outputs. `, label);
  return form;
}

function axisNumbers(axis, sizes) {
  const { kernel, stride, dilation, begin, end, extra } = axis;
  const size = [...new Set(sizes.map((n) => (isOpen(n) ? "n" : n)))].join(" / ");
  const padding = extra ? `, output padding ${extra}` : "";
  const [before, behind] = axis.pads;
  return `input ${size}, kernel ${kernel}, stride ${stride}, dilation ${dilation}, pads ${begin} and ${end}${padding}. `
    + `As lowered: ${stride - 1} ${stride === 2 ? "zero" : "zeros"} between neighbours, pads ${before} and ${behind}.`;
}

// Any output of the whole axis, by its number.
function askOutput(axis) {
  const form = make("p", "ask-output");
  const field = make("input");
  field.type = "number";
  field.min = 0;
  field.max = axis.output - 1;
  field.value = Math.floor(axis.output / 2);
  const label = make("label", "", "Any output of the whole axis: ");
  const answer = make("output");
  const show = () => {
    const o = Number(field.value);
    const known = field.value !== "" && Number.isInteger(o) && o >= 0 && o < axis.output;
    answer.textContent = known ? equation(axis, o) : `a number from 0 to ${axis.output - 1}`;
  };
  field.addEventListener("input", show);
  label.append(field);
  form.append(label, answer);
  show();
  return form;
}

// The same picture in a dialog as wide as the window.
function enlarge(rows, node) {
  const dialog = make("dialog", "axis-dialog");
  const room = Math.min(innerWidth * 0.92, 1400) - 60;
  dialog.append(make("h2", "", shownName(node)), axisSection(rows, node, room));
  dialog.append(button("Close", "Close (Escape)", () => dialog.close()));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function costTable(node, costs) {
  const table = make("table", "costs");
  const used = changeOf(node.key)?.form;
  const head = table.createTHead().insertRow();
  for (const title of ["form", "MACs", "moved", "scratch", "nodes", "wasted"]) {
    head.append(make("th", title === "form" ? "" : "number", title));
  }
  const body = table.createTBody();
  for (const cost of costs) {
    const row = body.insertRow();
    const notes = [cost.form === used ? "used here" : "", cost.chosen ? "cheapest" : ""].filter(Boolean);
    const name = make("td", "", cost.form);
    if (notes.length) name.append(make("small", "quiet", notes.join(", ")));
    row.append(name);
    if (cost.macs === undefined) row.append(...[0, 0, 0, 0, 0].map(() => make("td")));
    else row.append(...costCells(cost).map((text) => make("td", "number", text)));
    if (cost.refused) body.insertRow().append(refusal(cost));
  }
  const parts = make("div", "scrolled");
  parts.append(table);
  if (costs.some((cost) => cost.assumed)) parts.append(make("p", "quiet", "Sizes that are not known count as 32."));
  return parts;
}

function costCells(cost) {
  const wasted = `${Math.round(cost.wasted * 100)} %`;
  return [scaled(cost.macs), scaled(cost.bytes, "B"), scaled(cost.scratch, "B"), grouped(cost.nodes), wasted];
}

function refusal(cost) {
  const cell = make("td", "quiet refused", `refused: ${visible(cost.refused)}`);
  cell.colSpan = 6;
  return cell;
}
