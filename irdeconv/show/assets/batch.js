// The report of a batch: choose by verdict and words, sort, light and dark.

const GOOD = ["yes", "in part"];
const FIRST = ["page.html", "result.json"]; // of the files of an item

const root = document.documentElement;
const query = document.getElementById("query");
const items = document.getElementById("items");
const body = items.tBodies[0];
const lines = document.getElementById("data").textContent.split("\n").filter(Boolean);
const rows = [false, true].flatMap((good) => lines.map(JSON.parse).filter(({ status }) => GOOD.includes(status) === good))
  .map(readRow);
const shown = { status: null, column: -1, down: false };

function readRow(item, at) {
  const element = body.insertRow();
  element.id = item.item;
  element.classList.toggle("bad", !GOOD.includes(item.status));
  const name = visible(item.file) + (item.rows ? `[${item.rows.join(":")}]` : "");
  const model = breakable(make("a", "model"), name);
  model.href = `#${encodeURIComponent(item.item)}`;
  const parts = [item.status, model, answerOf(item), filesOf(item)];
  for (const part of parts) element.insertCell().append(part);
  return { element, at, status: item.status, text: element.textContent.toLowerCase() };
}

// The answer, unless the first diagnostic repeats it, and the diagnostics.
function answerOf({ summary, diagnostics, file, status }) {
  const answer = diagnostics[0]?.message === summary ? "" : visible(summary);
  const list = make("ul", "diagnostics");
  for (const found of diagnostics) {
    const place = [found.file === file && found.line !== null ? null : found.file, found.line, found.column];
    const where = place.filter((part) => part !== null).join(":");
    const text = `${where && `${where}: `}${found.severity}[${found.code}]: ${found.message}`;
    const line = make("li", "", visible(text));
    if (found.hint) line.append(make("div", "quiet", visible(found.hint)));
    list.append(line);
  }
  const parts = document.createDocumentFragment();
  if (diagnostics.length < 2) {
    parts.append(answer, ...(diagnostics.length ? [list] : []));
    return parts;
  }
  const details = make("details");
  details.open = !GOOD.includes(status);
  details.append(make("summary", "", answer || `${diagnostics.length} diagnostics`), list);
  parts.append(details);
  return parts;
}

function filesOf({ item, files }) {
  const { place } = items.dataset;
  const cell = make("div", "files");
  const rank = (name) => (FIRST.indexOf(name) + 1 || FIRST.length + 1);
  for (const { name } of place ? [...files].sort((a, b) => rank(a.name) - rank(b.name)) : []) {
    const link = make("a", "", visible(name));
    link.href = `${place}/${item}/${name}`.split("/").map(encodeURIComponent).join("/");
    cell.append(link);
  }
  return cell;
}

// All words must be in the row, and its verdict must be the chosen one.
function filter() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { element, status, text } of rows) {
    const fits = (shown.status ?? status) === status && words.every((word) => text.includes(word));
    element.hidden = !fits;
    count += fits;
  }
  document.getElementById("hits").textContent = count < rows.length ? `${count} of ${rows.length}` : "";
  for (const choice of document.querySelectorAll("#states button")) {
    choice.setAttribute("aria-pressed", String(choice.dataset.status === (shown.status ?? "")));
  }
}

// A third click restores the first order: failures first.
function sort(column) {
  if (shown.column !== column) Object.assign(shown, { column, down: false });
  else if (!shown.down) shown.down = true;
  else shown.column = -1;
  const text = ({ element }) => element.cells[shown.column].textContent;
  const compare = (a, b) => (shown.down ? -1 : 1) * text(a).localeCompare(text(b), "en", { numeric: true });
  const order = [...rows].sort((a, b) => (shown.column < 0 ? 0 : compare(a, b)) || a.at - b.at);
  body.append(...order.map(({ element }) => element));
  [...document.querySelectorAll("#items th")].forEach((head, at) => {
    const state = at === shown.column ? (shown.down ? "descending" : "ascending") : "none";
    head.setAttribute("aria-sort", state);
  });
}

function writeStates() {
  const counts = new Map();
  for (const { status } of rows) counts.set(status, (counts.get(status) ?? 0) + 1);
  const choices = [["", `all ${rows.length}`], ...[...counts].map(([status, count]) => [status, `${status} ${count}`])];
  document.getElementById("states").replaceChildren(...choices.map(([status, label]) => {
    const choice = button(label, status ? `Show the items with the verdict ${status}` : "Show all items", () => {
      shown.status = status || null;
      filter();
    });
    choice.dataset.status = status;
    return choice;
  }));
}

function setTheme(name) {
  root.dataset.theme = name;
}

const system = matchMedia("(prefers-color-scheme: dark)");
const follow = () => setTheme(system.matches ? "dark" : "light");
const toggle = () => setTheme(root.dataset.theme === "dark" ? "light" : "dark");
const open = (all) => body.querySelectorAll("details").forEach((details) => { details.open = all; });

system.addEventListener("change", follow);
query.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === query;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    query.select();
  } else if (event.key === "Escape") {
    query.value = "";
    query.blur();
    filter();
  } else if (event.key === "d" && !typing) toggle();
});
document.getElementById("tools").append(
  button("Open", "Open all diagnostics", () => open(true)),
  button("Close", "Close all diagnostics", () => open(false)),
  button("\u25d0", "Light or dark (d)", toggle),
);
[...document.querySelectorAll("#items th")].forEach((head, column) => {
  const title = head.textContent;
  head.replaceChildren(button(title, `Sort by ${title}`, () => sort(column)));
});
follow();
writeStates();
filter();
performance.mark("ready");
