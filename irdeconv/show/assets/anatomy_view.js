// A drawn axis that answers: which inputs and taps reach an output, and what an input reaches.

const CELL = { gutter: 66, least: 16, most: 30, letter: 6.1, roomy: 22 };

// The products that an output is the sum of, as a line of text.
function equation(axis, output, most = 12) {
  const terms = axis.terms(output);
  const shown = terms.slice(0, most).map(([i, k]) => `x${i}*w${k}`).join(" + ");
  return `y${output} = ${shown || "0, no input reaches it"}${terms.length > most ? " + ..." : ""}`;
}

function reachOf(axis, input, most = 12) {
  const pairs = axis.reached(input);
  const shown = pairs.slice(0, most).map(([o, k]) => `y${o} by w${k}`).join(", ");
  return `x${input} reaches ${shown || "no output: all of it is cut off"}${pairs.length > most ? ", ..." : ""}`;
}

// The cells whose texts have room beside those of others; outputs and taps first.
function labelledCells(cells, width) {
  const taken = [];
  const ranked = [...cells].sort((a, b) => (a[3] === null) - (b[3] === null));
  return ranked.filter(([at, kind, text]) => {
    if (!text || (text === "0" && width < CELL.roomy && kind !== "count")) return false;
    const half = (CELL.letter * text.length) / 2;
    const [low, high] = [at * width - half, at * width + half];
    if (taken.some(([start, stop]) => low < stop && start < high)) return false;
    taken.push([low, high]);
    return true;
  });
}

class AxisView {
  // `symbols` are other texts for the labels of rows.
  constructor(axis, room, say, symbols = {}) {
    Object.assign(this, { axis, say });
    this.first = axis.shown[0];
    const count = axis.shown[1] - this.first;
    this.width = Math.max(CELL.least, Math.min(CELL.most, Math.floor((room - CELL.gutter) / count)));
    this.height = Math.min(20, this.width + 2);
    this.example = axis.example();
    const scatter = axis.scatter();
    const [data, padded, ...rest] = axis.convolution();
    this.rows = [...scatter, [null, []], data, padded, this.reads(this.example), rest.at(-1)];
    this.svg = shape("svg", { class: "anatomy", role: "group", "aria-label": "One axis: inputs, taps, outputs" });
    // The labels have a picture of their own, which stays where the other one is scrolled.
    this.labels = shape("svg", { class: "anatomy axis-labels", width: CELL.gutter });
    this.svg.setAttribute("width", count * this.width + 4);
    for (const svg of [this.svg, this.labels]) svg.setAttribute("height", this.rows.length * (this.height + 3) + 4);
    this.labels.append(...this.rows.map(([label], at) => shape("text", { class: "soft", x: 0, y: this.base(at) }, symbols[label] ?? label ?? "")));
    this.groups = this.rows.map((row, at) => this.draw(row, at));
    this.svg.append(...this.groups);
    this.listen();
    this.leave();
  }

  reads(output) {
    return output === null ? ["no output", []] : this.axis.over(output);
  }

  top(row) {
    return 2 + row * (this.height + 3);
  }

  base(row) {
    return this.top(row) + this.height - (this.height - 10) / 2 - 1;
  }

  draw([, cells], at) {
    const group = shape("g", {});
    const [top, base] = [this.top(at), this.base(at)];
    for (const cell of cells) group.append(this.box(cell, top));
    for (const cell of labelledCells(cells, this.width)) {
      const faint = ["idle", "inserted", "padded"].includes(cell[1]) ? " soft" : "";
      const x = this.left(cell[0]) + (this.width - 1) / 2;
      group.append(shape("text", { class: `in${faint}`, x, y: base }, cell[2]));
    }
    return group;
  }

  left(position) {
    return 2 + (position - this.first) * this.width;
  }

  box([at, kind, text, phase], top) {
    const colour = phase === null ? "" : ` p${phase % DRAWN.colours}`;
    const [x, width] = [this.left(at), this.width - 1];
    const rect = shape("rect", { class: kind + colour, x, y: top, width, height: this.height });
    rect.dataset.at = at;
    if (kind === "input" || kind === "output" || kind === "extra") {
      rect.dataset.name = text;
      rect.setAttribute("tabindex", "-1");
      rect.setAttribute("role", "img");
      rect.setAttribute("aria-label", text);
    }
    if (kind !== "cut" && kind !== "lost") return rect;
    const both = shape("g", {});
    const line = `M${x} ${top + this.height}L${x + width} ${top}`;
    both.append(rect, shape("path", { class: "cross", d: line }));
    return both;
  }

  listen() {
    const named = (event) => event.target.closest?.("[data-name]");
    this.svg.addEventListener("pointerover", (event) => {
      const cell = event.target.closest?.("[data-at]");
      if (cell) this.hover(cell);
    });
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("focusin", (event) => named(event) && this.point(named(event).dataset.name));
    this.svg.addEventListener("focusout", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.step(event));
    for (const row of ["inputs", "outputs"]) this.named(row)[0]?.setAttribute("tabindex", "0");
  }

  // The cells that can be pointed at, of the first view.
  named(row) {
    const at = this.rows.findIndex(([label]) => label === row);
    return [...this.groups[at].querySelectorAll("[data-name]")];
  }

  // Any cell over an output's position stands for that output, unless it is an input.
  hover(cell) {
    const position = Number(cell.dataset.at);
    if (cell.dataset.name) this.point(cell.dataset.name);
    else if (this.axis.isOutput(position)) this.point(`y${position - this.axis.begin}`);
  }

  // Where the output that is explained first stands, for a frame that shows a part.
  get middle() {
    return this.example === null ? 0 : this.left(this.example + this.axis.begin);
  }

  step(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: "inputs", ArrowDown: "outputs" }[event.key];
    const cell = event.target.closest("[data-name]");
    if (!way || !cell || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const row = cell.dataset.name.startsWith("x") ? "inputs" : "outputs";
    const cells = this.named(row);
    const next = typeof way === "string"
      ? this.nearest(this.named(way), Number(cell.dataset.at))
      : cells[cells.findIndex((other) => other.dataset.name === cell.dataset.name) + way];
    next?.focus();
  }

  nearest(cells, position) {
    const far = (cell) => Math.abs(Number(cell.dataset.at) - position);
    return cells.reduce((best, cell) => (best && far(best) <= far(cell) ? best : cell), null);
  }

  leave() {
    const cell = this.svg.querySelector("[data-name]:focus");
    if (cell) this.point(cell.dataset.name);
    else if (this.example !== null) this.point(`y${this.example}`);
    else this.say("There is no output.");
  }

  point(name) {
    const number = Number(name.slice(1));
    if (name.startsWith("x")) this.pointAtInput(number);
    else this.pointAtOutput(number);
  }

  pointAtOutput(output) {
    const { axis } = this;
    const place = output + axis.begin;
    const inputs = axis.terms(output).map(([i]) => i);
    this.replaceReads(output);
    this.mark((label, at, kind) => {
      if (label === "inputs" || kind === "input") return inputs.includes(at / axis.stride);
      if (label === `y${output} reads`) return true;
      return at === place && (label === "outputs" || label === "products" || label.endsWith(" times"));
    });
    this.say(equation(axis, output));
  }

  pointAtInput(input) {
    const { axis } = this;
    const reached = new Set(axis.reached(input).map(([o]) => o + axis.begin));
    const at = axis.stride * input;
    this.mark((label, position, kind) => {
      if (label === `x${input} times`) return true;
      return kind === "input" ? position === at : label === "outputs" && reached.has(position);
    });
    this.say(reachOf(axis, input));
  }

  replaceReads(output) {
    const at = this.rows.findIndex(([label]) => label?.endsWith(" reads"));
    if (at < 0 || this.rows[at][0] === `y${output} reads`) return;
    this.rows[at] = this.reads(output);
    const group = this.draw(this.rows[at], at);
    this.groups[at].replaceWith(group);
    this.groups[at] = group;
    this.labels.children[at].textContent = this.rows[at][0];
  }

  mark(isMeant) {
    this.groups.forEach((group, at) => {
      for (const rect of group.querySelectorAll("rect")) {
        rect.classList.toggle("hit", isMeant(this.rows[at][0], Number(rect.dataset.at), rect.classList[0]));
      }
    });
  }
}

// The overlap map as one picture; `axes` are all of the layer.
function overlapPicture(axes) {
  const slices = overlapSlices(axes);
  const most = Math.max(1, ...slices.flatMap(([, rows]) => rows.flat()));
  const size = Math.max(18, CELL.letter * String(most).length + 8);
  const [tall, wide] = [slices[0][1].length, slices[0][1][0].length];
  const columns = Math.max(1, Math.floor(320 / (size * wide + 14)));
  const head = slices[0][0].length ? 16 : 0;
  const svg = shape("svg", { class: "anatomy", role: "img", "aria-label": "Taps that reach each output" });
  slices.forEach(([phases, rows], n) => {
    const left = (n % columns) * (size * wide + 14) + 1;
    const top = Math.floor(n / columns) * (size * tall + head + 8) + 1;
    if (head) svg.append(shape("text", { class: "soft", x: left, y: top + 11 }, `phase ${phases.join(", ")}`));
    rows.forEach((row, y) => row.forEach((count, x) => {
      const place = { x: left + x * size, y: top + head + y * size };
      const kind = `o${Math.ceil((4 * count) / most)}`;
      svg.append(shape("rect", { class: kind, ...place, width: size, height: size }));
      svg.append(shape("text", { class: "in", x: place.x + size / 2, y: place.y + size / 2 + 4 }, String(count)));
    }));
  });
  svg.setAttribute("width", Math.min(columns, slices.length) * (size * wide + 14));
  svg.setAttribute("height", Math.ceil(slices.length / columns) * (size * tall + head + 8) + 2);
  return svg;
}
