// What flowed through a layer in a run: extremes, a histogram, a picture of each output.

// Adds the values of a layer to a container; nothing where there are none.
function showValues(container, key) {
  overlayNotes(container, key);
  const found = valuesOf(key);
  if (!found) return;
  found.forEach((tensor, port) => {
    container.append(make("h3", "", found.length > 1 ? `Values of output ${port}` : "Values"));
    container.append(valueFacts(tensor));
    if (tensor.bins) container.append(histogram(tensor));
    if (tensor.picture) container.append(pictureOf(tensor.picture));
  });
}

// A layer that was lowered has the values of what computes its output now.
function valuesOf(key) {
  const found = ofLayer(page.data.values, key);
  return typeof found === "string" ? page.data.values[found] : found;
}

function valueFacts(tensor) {
  const number = (value) => String(Number(value.toPrecision(6)));
  const { low, mean, high } = tensor;
  const known = [["min", low], ["mean", mean], ["max", high]].filter(([, value]) => value !== undefined);
  const facts = known.map(([term, value]) => [term, number(value)]);
  facts.push(["zeros", grouped(tensor.zeros ?? 0)]);
  for (const [term, count] of [["NaN", tensor.nan], ["infinite", tensor.infinite]]) {
    if (count) facts.push([term, grouped(count), "warning"]);
  }
  return definitions(facts);
}

const CHART = { width: 300, height: 72 };

function chart(title, height = CHART.height) {
  const picture = shape("svg", { class: "chart", viewBox: `0 0 ${CHART.width} ${height}`, role: "img" });
  picture.append(shape("title", {}, title));
  return picture;
}

// Bars of counts; their tops are on a scale of square roots, or one peak would hide all others.
function histogram(tensor) {
  const most = Math.max(...tensor.bins);
  const total = tensor.bins.reduce((sum, count) => sum + count, 0);
  const picture = chart(`Histogram of ${grouped(total)} numbers`);
  const width = CHART.width / tensor.bins.length;
  tensor.bins.forEach((count, at) => {
    const height = Math.sqrt(count / most) * (CHART.height - 2);
    const box = { x: at * width, y: CHART.height - height, width: Math.max(1, width - 1), height };
    const bar = shape("rect", { class: "bar", ...box });
    const ends = [at, at + 1].map((edge) => tensor.low + ((tensor.high - tensor.low) * edge) / tensor.bins.length);
    const range = ends.map((end) => Number(end.toPrecision(4))).join(" to ");
    bar.append(shape("title", {}, `${range}: ${grouped(count)}`));
    picture.append(bar);
  });
  const figure = make("figure", "values");
  const ends = make("figcaption", "quiet ends");
  const text = (value) => String(Number(value.toPrecision(4)));
  ends.append(make("span", "", text(tensor.low)), make("span", "", text(tensor.high)));
  const meaning = `The highest bar stands for ${grouped(most)} ${most === 1 ? "number" : "numbers"}. A bar of half its height stands for a quarter of them.`;
  figure.append(picture, ends, make("p", "quiet", meaning));
  return figure;
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// Feature maps side by side, an image, or lines.
function pictureOf(given) {
  const figure = make("figure", "values");
  const parts = { maps: mapPictures, colour: colourPicture, lines: linePictures };
  const bytes = bytesOf(given.data);
  figure.append(...parts[given.kind](given, bytes));
  const [channels] = given.shape;
  const shown = given.kind === "colour" ? "3 channels as red, green, blue" : `${channels} of ${grouped(given.total)} channels`;
  const size = given.kind === "lines" ? `${given.size[1]} long` : `${given.size.join(" x ")} each`;
  const bad = bytes.includes(0) ? "; pink is not finite" : "";
  figure.append(make("figcaption", "quiet", `Read as ${given.axes}: ${shown}, ${size}${bad}`));
  return figure;
}

const NOT_FINITE = [255, 0, 190];

function pixels(width, height, colourAt) {
  const canvas = make("canvas", "map");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let at = 0; at < width * height; at += 1) image.data.set([...colourAt(at), 255], 4 * at);
  context.putImageData(image, 0, 0);
  return canvas;
}

function brightness(level) {
  return Math.round(((level - 1) * 255) / 254);
}

function grey(level) {
  if (level === 0) return NOT_FINITE;
  const value = brightness(level);
  return [value, value, value];
}

// Each map has its own scale: what is in it is of interest, its range is in the tooltip.
function mapPictures({ shape: [channels, height, width], ranges }, bytes) {
  const grid = make("div", "maps");
  for (let channel = 0; channel < channels; channel += 1) {
    const start = channel * height * width;
    const canvas = pixels(width, height, (at) => grey(bytes[start + at]));
    const range = ranges[channel] ? `black ${ranges[channel][0]}, white ${ranges[channel][1]}` : "nothing finite";
    canvas.title = `channel ${channel}: ${range}`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", canvas.title);
    grid.append(canvas);
  }
  return [grid];
}

function colourPicture({ shape: [, height, width], ranges: [range] }, bytes) {
  const size = height * width;
  const canvas = pixels(width, height, (at) => {
    const levels = [bytes[at], bytes[at + size], bytes[at + 2 * size]];
    return levels.includes(0) ? NOT_FINITE : levels.map(brightness);
  });
  canvas.classList.add("whole");
  canvas.title = range ? `${range[0]} is dark, ${range[1]} is bright` : "nothing finite";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `image, ${canvas.title}`);
  return [canvas];
}

const LINE_HEIGHT = 44;

function linePictures({ shape: [channels, , width], ranges }, bytes) {
  const lines = [];
  for (let channel = 0; channel < channels; channel += 1) {
    const row = bytes.subarray(channel * width, (channel + 1) * width);
    const range = ranges[channel] ? `${ranges[channel][0]} to ${ranges[channel][1]}` : "nothing finite";
    const picture = chart(`channel ${channel}: ${range}`, LINE_HEIGHT);
    const x = (at) => (width > 1 ? (at * CHART.width) / (width - 1) : CHART.width / 2);
    const y = (level) => LINE_HEIGHT - 2 - ((level - 1) * (LINE_HEIGHT - 4)) / 254;
    let path = "";
    row.forEach((level, at) => {
      if (level) path += `${at && row[at - 1] ? "L" : "M"}${x(at).toFixed(1)} ${y(level).toFixed(1)}`;
      else picture.append(shape("line", { class: "hole", x1: x(at), x2: x(at), y1: 0, y2: LINE_HEIGHT }));
    });
    picture.append(shape("path", { class: "curve", d: path }));
    lines.push(picture);
  }
  return lines;
}
