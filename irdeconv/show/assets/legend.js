// The choice of an overlay, what its colours mean, and its layers with the largest numbers.

const MOST_RANKED = 12;

// Fills a container with the choice of an overlay and what its colours mean.
function overlayLegend(container) {
  const choice = make("select", "overlay-choice");
  choice.setAttribute("aria-label", "Colour the layers by");
  choice.title = "Colour the layers by a number (m, M)";
  choice.append(new Option("no colours", "-1"));
  overlays.all.forEach(({ title }, at) => choice.append(new Option(title, String(at))));
  choice.addEventListener("change", () => overlays.show(Number(choice.value)));
  const meaning = make("span", "overlay-meaning");
  container.replaceChildren(choice, meaning);
  const write = () => {
    choice.value = String(overlays.at);
    meaning.replaceChildren(...(overlays.current ? legendParts() : []));
  };
  page.onOverlay(write);
  page.onRepaint(() => meaning.querySelectorAll("canvas").forEach(paintRamp));
  overlays.show(overlays.all.findIndex((overlay) => overlay.shown));
}

function legendParts() {
  const overlay = overlays.current;
  const { keys, low, high, unknown } = overlays.ranked;
  if (!keys.length) return [make("span", "quiet", unknown ? "unknown before sizes are" : "no layer has a number")];
  const least = overlays.scale === "log" ? shownNumber(low ?? 0, overlay.unit ?? "") : "0";
  const canvas = make("canvas", "ramp");
  Object.assign(canvas, { width: 128, height: 12 });
  canvas.setAttribute("aria-hidden", "true");
  const other = overlays.scale === "log" ? "linear" : "log";
  const parts = [
    make("span", "number", least), canvas, make("span", "number", shownNumber(high ?? 0, overlay.unit ?? "")),
    button(overlays.scale, `Change to a ${other} scale (g)`, () => overlays.toggleScale()),
    button("largest", "Go to the layer with the largest number, then to the next (x)", () => overlays.walk(1)),
  ];
  if (unknown) parts.push(make("span", "quiet", `? unknown: ${grouped(unknown)}`));
  return parts;
}

// The layers with the largest numbers, for the page as a whole.
function overlayRanking() {
  const overlay = overlays.current;
  if (!overlay) return [];
  const { keys } = overlays.ranked;
  const list = make("ol", "links ranking");
  for (const key of keys.slice(0, MOST_RANKED)) {
    const item = make("li");
    const side = roots().length > 1 ? ` ${page.graphs.get(page.node(key).graph).title}` : "";
    const text = overlayText(overlay, overlayValue(overlay, key));
    item.append(layerLink(key), make("span", "quiet", ` ${text}${side}`));
    list.append(item);
  }
  const marked = Object.entries(overlay.marks ?? {}).map(([key, word]) => {
    const line = make("p", "warning", `${visible(word)}: `);
    line.append(layerLink(key));
    return line;
  });
  const title = `Largest: ${overlay.title} (x walks down the list)`;
  return [...marked.slice(0, MOST_RANKED), ...(keys.length ? [make("h3", "", title), list] : [])];
}

// The layer that a page of measurements begins with, null where any will do.
function firstMarked() {
  return overlays.all.find(({ first }) => first)?.first ?? null;
}

// What the overlays say of one layer in words.
function overlayNotes(container, key) {
  for (const overlay of overlays.all) {
    const word = ofLayer(overlay.marks, key);
    const lines = ofLayer(overlay.lines, key) ?? [];
    if (!word && !lines.length) continue;
    container.append(make("h3", "", overlay.title));
    if (word) container.append(make("p", "warning", visible(word)));
    for (const line of lines) container.append(make("p", "", visible(line)));
  }
  rankNote(container, key);
}

function rankNote(container, key) {
  const overlay = overlays.current;
  const value = overlay ? overlayValue(overlay, key) : undefined;
  if (value === undefined || page.node(key).constant) return;
  const { keys } = overlays.ranked;
  const at = Math.max(keys.indexOf(key), keys.indexOf(twinOf(key)));
  const rank = at < 0 ? "" : `, rank ${grouped(at + 1)} of ${grouped(keys.length)} (1 is the largest)`;
  container.append(make("p", "quiet", `${overlay.title}: ${overlayText(overlay, value) || "0"}${rank}`));
}

// The table has the numbers as a column, unless it has them anyhow.
function overlayColumn() {
  const overlay = overlays.current;
  if (!overlay || COLUMNS.some(({ title }) => title === overlay.title)) return null;
  const value = (node) => overlayValue(overlay, node.key);
  return {
    title: overlay.title,
    text: (node) => overlayText(overlay, value(node)),
    sort: (node) => value(node) ?? -1,
    number: true,
  };
}
