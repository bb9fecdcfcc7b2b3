// Elements and texts. Text of a model only ever becomes textContent.

function make(tag, className = "", text = null) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null) element.textContent = text;
  return element;
}

const SVG_SPACE = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text = null) {
  const element = document.createElementNS(SVG_SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

// Terms and what there is to say of each: [term, text, class of the text].
function definitions(entries, className = "facts") {
  const list = make("dl", className);
  for (const [term, text, look = ""] of entries) {
    list.append(make("dt", "", visible(term)), make("dd", look, visible(text)));
  }
  return list;
}

function button(label, title, action, className = "") {
  const element = make("button", className, label);
  element.type = "button";
  element.title = title;
  element.setAttribute("aria-label", title);
  element.addEventListener("click", action);
  return element;
}

// Characters that do not show, or that turn the direction of what follows, become escapes.
const HIDDEN = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u180b-\\u180f"
  + "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff\\u{e0000}-\\u{e0fff}]", "gu");

function visible(text) {
  const code = (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`;
  return String(text).replace(HIDDEN, code);
}

// The name of a layer where people read it; an empty one would not show at all.
function shownName(node) {
  return node.name === "" ? `(no name, id ${node.id})` : visible(node.name);
}

// Lines of a name break behind its separators, but not before a short suffix.
function breakable(element, text) {
  for (const part of text.split(/(?<=[/_:])|(?<=\.)(?=[^./]{5})/)) element.append(part, make("wbr"));
  return element;
}

// The end of a name tells layers apart, so the middle gives way.
function shortened(text, most) {
  if (text.length <= most) return text;
  const head = Math.floor((most - 1) * 0.4);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

function grouped(value) {
  return value === null || value === undefined ? "?" : value.toLocaleString("en-US");
}

// 1,234,567 is "1.23 M".
function scaled(value, unit = "") {
  if (value === null || value === undefined) return "?";
  const steps = [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]];
  const [prefix, size] = steps.find(([, least]) => Math.abs(value) >= least) ?? ["", 1];
  const number = Number((value / size).toPrecision(3));
  return `${number} ${prefix}${unit}`.trimEnd();
}

// A link to a layer; a click selects it.
function layerLink(key, text = null) {
  const node = page.node(key);
  const link = breakable(make("a", "layer-link"), text ?? (node ? shownName(node) : key));
  link.href = `#${hashOf(key)}`;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    page.select(key);
  });
  return link;
}

function hashOf(key) {
  return key.split("/").map(encodeURIComponent).join("/");
}

function announce(text) {
  document.getElementById("live").textContent = text;
}
