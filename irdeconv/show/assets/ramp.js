// The colours of numbers: a ramp of even steps in Oklab, from what is near the ground to what is far
// from it. Its lightness alone tells the order, so it reads without colours as well.

const RAMPS = {
  light: ["#f2f0c5", "#bae3c0", "#85d2b9", "#54bbb1", "#2ba2a8", "#0f879d", "#156c92", "#245086", "#2d337b"],
  dark: ["#2f3671", "#205285", "#056d97", "#0788a6", "#35a2af", "#63bab4", "#92cfb3", "#c3e1ad", "#f5f0a0"],
};

// The colour at a place from 0 to 1, as #rrggbb.
function rampColour(place) {
  const ramp = RAMPS[theme.dark ? "dark" : "light"];
  const at = Math.min(1, Math.max(0, place)) * (ramp.length - 1);
  const low = Math.min(ramp.length - 2, Math.floor(at));
  const [from, to] = [channels(ramp[low]), channels(ramp[low + 1])];
  const mixed = from.map((part, index) => Math.round(part + (to[index] - part) * (at - low)));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function paintRamp(canvas) {
  const context = canvas.getContext("2d");
  for (let x = 0; x < canvas.width; x += 1) {
    context.fillStyle = rampColour(x / (canvas.width - 1));
    context.fillRect(x, 0, 1, canvas.height);
  }
}

// The number stands on the lower edge of its box, so that colours are not all there is.
function drawNumber(painter, box, look) {
  if (!overlays.current) return;
  const { value, marked } = paintOf(box);
  const shown = look.zoom >= TEXT_FROM ? overlayText(overlays.current, value) : "";
  const text = shown && box.members ? `\u2264 ${shown}` : shown;
  if (text) {
    const { palette, font } = look;
    const width = text.length * font.label * 0.58 + 10;
    const height = font.label + 5;
    const [x, y] = [box.x - 8, box.y + box.height - height / 2 + 2]; // beside the label of the link
    painter.box(x, y, width, height, height / 2, { fill: palette.ground, stroke: palette.edge });
    const style = { size: font.label, family: font.family, fill: palette.text, align: "center" };
    painter.text(text, x + width / 2, y + height * 0.76, style);
  }
  if (marked) drawWarning(painter, box, look);
}

// A triangle with a stroke in it: look here.
function drawWarning(painter, box, { palette }) {
  const [x, y] = [box.x + 1, box.y + 1];
  const corners = [[x, y - 10], [x + 10, y + 8], [x - 10, y + 8]];
  painter.polygon(corners, { fill: palette.removed, stroke: palette.ground, width: 1.5 });
  painter.box(x - 1, y - 4, 2, 7, 0, { fill: palette.ground });
  painter.box(x - 1, y + 4.5, 2, 2, 0, { fill: palette.ground });
}
