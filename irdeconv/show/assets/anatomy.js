// One axis of a deconvolution as rows of cells, of its integers alone. irdeconv/show/anatomy.py
// makes the same rows and says what stands where; a test compares the two.

const DRAWN = { elements: 4, positions: 144, stamps: 8, colours: 8, cells: 6, phases: 16, slices: 8 };

const floorDiv = (a, b) => Math.floor(a / b);
const modulo = (a, b) => a - b * Math.floor(a / b);
const numbersFrom = (start, stop) => Array.from({ length: Math.max(stop - start, 0) }, (_, n) => start + n);

class AxisAnatomy {
  // `end` has the output_padding `extra` less already.
  constructor([size, kernel, stride, dilation, begin, end, extra]) {
    Object.assign(this, { kernel, stride, dilation, begin, end, extra });
    this.size = typeof size === "string" ? null : size; // an open size is a text
    this.reach = dilation * (kernel - 1);
    this.full = size ? Math.max(stride * (size - 1) + this.reach + 1, 0) : 0;
    this.output = Math.max(stride * (size - 1) + this.reach + 1 - begin - end, 0);
    this.length = size ? stride * (size - 1) + 1 : 0;
    // Without inputs S*0 zeros are there, unlike S(I-1)+1: the end has S-1 less to pad.
    this.pads = [this.reach - begin, this.reach - end - (size ? 0 : stride - 1)];
    this.window = this.output ? [0 - this.pads[0], this.length + this.pads[1]] : [0, 0];
    this.outputs = [begin, begin + this.output];
    this.everything = this.spanned();
    this.shown = this.drawnPart();
  }

  // What an open axis has instead of numbers: "2n - 1", and the labels of its rows.
  get outputFormula() {
    const rest = this.reach + 1 - this.stride - this.begin - this.end;
    const sign = rest < 0 ? "-" : "+";
    return `${this.stride === 1 ? "" : this.stride}n${rest ? ` ${sign} ${Math.abs(rest)}` : ""}`;
  }

  get symbols() {
    return { inputs: "n inputs", outputs: `${this.outputFormula.replaceAll(" ", "")} outputs` };
  }

  sized(size) {
    const { kernel, stride, dilation, begin, end, extra } = this;
    return new AxisAnatomy([size, kernel, stride, dilation, begin, end, extra]);
  }

  spanned() {
    const spans = [[0, this.full], this.window, this.outputs].filter(([a, b]) => a < b);
    if (!spans.length) return [0, 1];
    return [Math.min(...spans.map(([a]) => a)), Math.max(...spans.map(([, b]) => b))];
  }

  drawnPart() {
    const [first, stop] = this.everything;
    if (stop - first <= DRAWN.positions) return [first, stop];
    const wanted = this.begin - Math.min(this.reach, DRAWN.positions / 2);
    const start = Math.max(first, Math.min(wanted, stop - DRAWN.positions));
    return [start, start + DRAWN.positions];
  }

  // With few elements where there are many, or an open number (null); the ends stay as they are.
  shortened() {
    let few = DRAWN.elements;
    const wide = (n) => {
      const [first, stop] = this.sized(n).everything;
      return stop - first > DRAWN.positions;
    };
    while (few > 2 && wide(few)) few -= 1;
    const lacking = this.stride + 1 + this.begin + this.end - this.reach - 1;
    few = Math.max(few, Math.ceil(lacking / this.stride) + 1);
    return this.sized(this.size === null || this.size > few + 2 ? few : this.size);
  }

  isOutput(p) {
    return this.outputs[0] <= p && p < this.outputs[1];
  }

  // The tap by which an input reaches an output, or null: S*i + D*k = o + begin.
  tap(output, input) {
    const place = output + this.begin - this.stride * input;
    const k = floorDiv(place, this.dilation);
    return modulo(place, this.dilation) === 0 && k >= 0 && k < this.kernel ? k : null;
  }

  // The pairs of an input and a tap whose products add up to an output.
  terms(output) {
    const place = output + this.begin;
    const first = Math.max(Math.ceil((place - this.reach) / this.stride), 0);
    const stop = Math.min(floorDiv(place, this.stride) + 1, this.size);
    return numbersFrom(first, stop).map((i) => [i, this.tap(output, i)]).filter(([, k]) => k !== null);
  }

  // The pairs of an output and a tap that an input reaches.
  reached(input) {
    const pairs = numbersFrom(0, this.kernel).map((k) => [this.stride * input + this.dilation * k - this.begin, k]);
    return pairs.filter(([o]) => o >= 0 && o < this.output);
  }

  phase(p) {
    return this.isOutput(p) ? modulo(p - this.begin, this.stride) : null;
  }

  get positions() {
    return numbersFrom(...this.shown);
  }

  // The rows of both views; a row is [label, cells], a cell [position, kind, text, phase].
  scatter() {
    const data = this.data().filter(([, kind]) => kind === "input");
    const rows = [["inputs", data], ...this.stamped().map((i) => this.stamp(i))];
    if (rows.length - 1 < this.size) rows.push([`... ${this.size} inputs`, []]);
    return [...rows, ["outputs", this.sums()], ["products", this.counts()]];
  }

  convolution() {
    const outputs = this.sums().filter(([, kind]) => kind !== "cut");
    const reads = this.slid().map((o) => this.over(o));
    return [["data", this.data()], ["padded", this.padded()], ...reads, ["outputs", outputs]];
  }

  // The inputs with a row of their own: the first that reach an output.
  stamped() {
    let [first, stop] = [0, this.size];
    if (this.size > DRAWN.stamps && this.output) {
      first = Math.min(Math.max(Math.ceil((this.begin - this.reach) / this.stride), 0), this.size);
      stop = Math.min(floorDiv(this.begin + this.output - 1, this.stride) + 1, this.size);
    }
    return numbersFrom(first, stop).slice(0, DRAWN.stamps);
  }

  // The outputs with a row of their own: one per phase, from the middle.
  slid() {
    const start = Math.max(this.shown[0] - this.begin, 0);
    const length = Math.max(Math.min(this.shown[1] - this.begin, this.output) - start, 0);
    const count = Math.min(Math.max(this.stride, 3), DRAWN.stamps, length);
    const first = start + floorDiv(length - count, 2);
    return numbersFrom(first, first + count);
  }

  // The output that is explained first: the one that is the sum of most products.
  example() {
    const most = (best, o) => (best !== null && this.terms(best).length >= this.terms(o).length ? best : o);
    return this.slid().reduce(most, null);
  }

  stamp(i) {
    const cells = [];
    for (const p of this.positions) {
      const k = this.tap(p - this.begin, i);
      if (k === null) continue;
      const phase = this.phase(p);
      cells.push([p, phase === null ? "lost" : "tap", `w${k}`, phase]);
    }
    return [`x${i} times`, cells];
  }

  sums() {
    const cells = [];
    for (const p of this.positions) {
      const o = p - this.begin;
      const kind = o >= this.output - this.extra ? "extra" : "output";
      if (this.isOutput(p)) cells.push([p, kind, `y${o}`, this.phase(p)]);
      else if (p >= 0 && p < this.full) cells.push([p, "cut", "", null]);
    }
    return cells;
  }

  counts() {
    const drawn = this.positions.filter((p) => this.isOutput(p));
    return drawn.map((p) => [p, "count", String(this.terms(p - this.begin).length), null]);
  }

  data() {
    const inside = this.positions.filter((p) => p >= 0 && p < this.length);
    return inside.map((p) => (p % this.stride ? [p, "inserted", "0", null] : [p, "input", `x${p / this.stride}`, null]));
  }

  padded() {
    const data = new Map(this.data().map((cell) => [cell[0], cell]));
    const cells = [];
    for (const p of this.positions) {
      const inside = this.window[0] <= p && p < this.window[1];
      const cell = data.get(p);
      if (inside) cells.push(cell ?? [p, "padded", "0", null]);
      else if (cell) cells.push([p, "cut", cell[2], null]);
    }
    return cells;
  }

  // Where the taps of an output lie over the padded data.
  over(o) {
    const cells = [];
    for (const p of this.positions) {
      const k = floorDiv(o + this.begin - p, this.dilation);
      if (modulo(o + this.begin - p, this.dilation) || k < 0 || k >= this.kernel) continue;
      const data = p >= 0 && p < this.length && p % this.stride === 0;
      cells.push([p, data ? "tap" : "idle", `w${k}`, data ? o % this.stride : null]);
    }
    return [`y${o} reads`, cells];
  }
}

// The taps that reach the outputs of a phase, away from the borders.
function tapsOfPhase(axis, phase) {
  const taps = [];
  for (let k = 0; k < axis.kernel; k += 1) {
    if (modulo(phase + axis.begin - k * axis.dilation, axis.stride) === 0) taps.push(k);
  }
  return taps;
}

const commonFactor = (a, b) => (b ? commonFactor(b, a % b) : a);

// Whether all phases of an axis have equally many taps.
function isEven(axis) {
  return commonFactor(axis.stride, axis.dilation) === 1 && axis.kernel % axis.stride === 0;
}

// How many taps reach each output: slices [phases of the axes before, rows of counts].
function overlapSlices(axes) {
  if (axes.every(isEven)) {
    const taps = axes.reduce((n, axis) => n * (axis.kernel / axis.stride), 1);
    const row = Array(DRAWN.cells).fill(taps);
    return [[[], Array(axes.length > 1 ? DRAWN.cells : 1).fill(row)]];
  }
  const counts = axes.map((axis) => {
    const drawn = numbersFrom(0, Math.min(axis.stride, DRAWN.phases)).map((r) => tapsOfPhase(axis, r).length);
    const times = drawn.length < axis.stride ? 1 : Math.max(Math.ceil(DRAWN.cells / drawn.length), 1);
    return { drawn, row: Array.from({ length: times }, () => drawn).flat() };
  });
  const rows = axes.length > 1 ? counts.at(-2).row : [1];
  let slices = [[[], 1]];
  for (const { drawn } of counts.slice(0, -2)) {
    slices = slices.flatMap(([phases, n]) => drawn.map((m, r) => [[...phases, r], n * m]));
  }
  return slices.slice(0, DRAWN.slices).map(([phases, n]) => [phases, rows.map((a) => counts.at(-1).row.map((b) => n * a * b))]);
}
