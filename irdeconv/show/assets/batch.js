// The report of a batch: choose by verdict and words, sort, light and dark. Without this script the
// table has all rows, failures first.

const root = document.documentElement;
const query = document.getElementById("query");
const body = document.querySelector("#items tbody");
const rows = [...body.rows].map((element, at) => (
  { element, at, status: element.cells[0].textContent, text: element.textContent.toLowerCase() }));
const shown = { status: null, column: -1, down: false };

function button(label, title, action) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: label, title });
  made.setAttribute("aria-label", title);
  made.addEventListener("click", action);
  return made;
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
