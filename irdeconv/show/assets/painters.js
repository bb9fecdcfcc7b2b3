// Two painters with the same five strokes: one for a canvas, one that writes SVG.
// A colour that is null is not painted. A text with a halo can be read on lines.

const HALO = 3;

class CanvasPainter {
  constructor(context) {
    this.context = context;
    this.font = "";
  }

  box(x, y, width, height, radius, style) {
    const { context } = this;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    this.finish(style);
  }

  polygon(points, style) {
    const { context } = this;
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    this.finish(style);
  }

  circle(x, y, radius, style) {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.finish(style);
  }

  // `paths` are lists of [x, y, x, y, ...]; an S between two points that are not above each other.
  curves(paths, style) {
    this.context.beginPath();
    for (const points of paths) traceCurve(this.context, points);
    this.finish({ ...style, fill: null });
  }

  text(text, x, y, style) {
    const { context } = this;
    const font = `${style.weight ?? 400} ${style.size}px ${style.family}`;
    if (font !== this.font) context.font = this.font = font;
    context.fillStyle = style.fill;
    context.textAlign = style.align ?? "left";
    context.textBaseline = "alphabetic";
    if (style.halo) {
      Object.assign(context, { strokeStyle: style.halo, lineWidth: HALO, lineJoin: "round" });
      context.setLineDash([]);
      context.strokeText(text, x, y);
    }
    context.fillText(text, x, y);
  }

  finish({ fill = null, stroke = null, width = 1, dash = [] }) {
    const { context } = this;
    if (fill !== null) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke === null) return;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.stroke();
  }
}

function traceCurve(context, points) {
  context.moveTo(points[0], points[1]);
  for (let at = 2; at < points.length; at += 2) {
    const [x0, y0, x1, y1] = points.slice(at - 2, at + 2);
    const middle = (y0 + y1) / 2;
    if (x0 === x1) context.lineTo(x1, y1);
    else context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
}

const XML = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
// XML has no such characters, not even as numbers.
const NOT_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu;

function xml(text) {
  return String(text).replace(NOT_XML, "\ufffd").replace(/[&<>"]/g, (c) => XML[c]);
}

class SvgPainter {
  constructor() {
    this.parts = [];
  }

  box(x, y, width, height, radius, style) {
    const place = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<rect ${place} rx="${round(radius)}"${ink(style)}/>`);
  }

  polygon(points, style) {
    const text = points.map(([x, y]) => `${round(x)},${round(y)}`).join(" ");
    this.parts.push(`<polygon points="${text}"${ink(style)}/>`);
  }

  circle(x, y, radius, style) {
    this.parts.push(`<circle cx="${round(x)}" cy="${round(y)}" r="${round(radius)}"${ink(style)}/>`);
  }

  curves(paths, style) {
    const path = new PathText();
    for (const points of paths) traceCurve(path, points);
    this.parts.push(`<path d="${path.text}"${ink({ ...style, fill: null })}/>`);
  }

  text(text, x, y, style) {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const font = `font-family="${xml(style.family)}" font-size="${style.size}"`;
    const look = `${font} font-weight="${style.weight ?? 400}" text-anchor="${anchor}"`;
    const halo = style.halo ? ` stroke="${xml(style.halo)}" stroke-width="${HALO}" stroke-linejoin="round" paint-order="stroke"` : "";
    const place = `x="${round(x)}" y="${round(y)}" fill="${xml(style.fill)}"${halo}`;
    this.parts.push(`<text ${place} ${look} xml:space="preserve">${xml(text)}</text>`);
  }

  document([left, top, width, height], scale, ground, title) {
    const size = `width="${round(width * scale)}" height="${round(height * scale)}"`;
    const box = [left, top, width, height].map(round).join(" ");
    const head = `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="${box}">`;
    const place = `x="${round(left)}" y="${round(top)}" width="${round(width)}" height="${round(height)}"`;
    const back = `<rect ${place} fill="${xml(ground)}"/>`;
    return [head, `<title>${xml(title)}</title>`, back, ...this.parts, "</svg>\n"].join("\n");
  }
}

// Takes the calls that draw a curve on a canvas and writes them as the path of an SVG.
class PathText {
  constructor() {
    this.text = "";
  }

  moveTo(...numbers) { this.text += `M${numbers.map(round).join(" ")}`; }

  lineTo(...numbers) { this.text += `L${numbers.map(round).join(" ")}`; }

  bezierCurveTo(...numbers) { this.text += `C${numbers.map(round).join(" ")}`; }
}

function round(number) {
  return Math.round(number * 100) / 100;
}

function ink({ fill = null, stroke = null, width = 1, dash = [] }) {
  const inside = ` fill="${xml(fill ?? "none")}"`;
  if (stroke === null) return inside;
  const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
  return `${inside} stroke="${xml(stroke)}" stroke-width="${round(width)}"${dashes}`;
}
