// Puts the page together.

function writeBar() {
  const title = document.getElementById("title");
  title.textContent = visible(page.data.title);
  title.title = visible(page.data.file ?? page.data.title);
  const changes = page.data.changes.length;
  const count = changes ? `${changes} ${changes === 1 ? "change" : "changes"}` : "nothing changed";
  const summary = document.getElementById("summary");
  const { headline } = page.data;
  if (headline) summary.append(make("span", "headline", visible(headline)));
  else if (roots().length > 1) summary.append(make("span", "quiet", count));
  summary.title = summary.textContent;
  const tools = document.getElementById("tools");
  if (changes) {
    tools.append(
      button("◂", "Previous change (p)", () => stepChange(-1)),
      button("▸", "Next change (n)", () => stepChange(1)),
    );
  }
  if (roots().length > 1) tools.append(linkButton());
  tools.append(
    partButton("Table", "Show or hide the table (t)", "no-table"),
    partButton("Details", "Show or hide the details (i)", "no-side"),
    button("SVG", "Save the graph as SVG (s)", downloadSvg),
    button("◐", "Light or dark (d)", theme.toggle),
    button("?", "Keys (?)", toggleHelp),
  );
}

// The address names the selected layer, by key or by name: #before/12, #up1.
function keyOfHash() {
  let text = location.hash.slice(1);
  try {
    text = decodeURIComponent(text);
  } catch {
    return null;
  }
  if (text === "" || page.node(text)) return text || null;
  for (const graph of page.graphs.values()) {
    for (const node of graph.nodes.values()) if (node.name === text) return node.key;
  }
  return null;
}

function watchAddress() {
  page.onSelect((key, how) => {
    const hash = key === null ? "" : `#${hashOf(key)}`;
    if (how.back || hash === location.hash) return;
    try {
      if (how.first) history.replaceState(null, "", hash);
      else history.pushState(null, "", hash || location.pathname);
    } catch {
      // Some browsers refuse more than a hundred addresses in half a minute. The page goes on.
    }
  });
  const follow = () => page.select(keyOfHash(), { back: true });
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);
}

// Drags a separator: `write` gets the pointer's place, `step` is for the arrow keys.
function watchSeparator(id, write, arrows) {
  const bar = document.getElementById(id);
  bar.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    bar.setPointerCapture(event.pointerId);
  });
  bar.addEventListener("pointermove", (event) => {
    if (bar.hasPointerCapture(event.pointerId)) write(event.clientX, event.clientY);
  });
  bar.addEventListener("keydown", (event) => {
    const step = arrows[event.key];
    if (!step) return;
    event.preventDefault();
    const { left, top } = bar.getBoundingClientRect();
    write(left + step[0], top + step[1]);
  });
}

function watchSeparators() {
  const main = document.getElementById("main");
  const within = (least, size, most) => `${Math.round(Math.min(most, Math.max(least, size)))}px`;
  watchSeparator("split", (x) => {
    main.style.setProperty("--side", within(180, innerWidth - x, innerWidth * 0.7));
  }, { ArrowLeft: [-24, 0], ArrowRight: [24, 0] });
  watchSeparator("fold", (x, y) => {
    main.style.setProperty("--table", within(60, innerHeight - y, innerHeight * 0.8));
  }, { ArrowUp: [0, -24], ArrowDown: [0, 24] });
}

function announceSelection(key) {
  const node = page.node(key);
  if (!node) return;
  const change = node.change === "same" ? "" : `, ${CHANGE_WORDS[node.change]}`;
  announce(`${shortened(shownName(node), 120)}, ${visible(node.type)}, ${visible(node.outputs.join(", "))}${change}`);
}

function writeLegend() {
  const legend = make("div", "legend");
  const overlay = make("div", "overlay-legend");
  overlayLegend(overlay);
  legend.append(overlay);
  changeLegend(legend);
  document.getElementById("panes").append(legend);
}

writeBar();
panes.open();
writeLegend();
sidebar.open();
search.open();
table.open();
watchSeparators();
watchAddress();
watchKeys();
page.onSelect(announceSelection);
panes.settle();
const start = keyOfHash() ?? firstMarked() ?? (page.data.changes.length ? startOf(page.data.changes[0]) : null);
if (start) page.select(start, { first: true, always: true });
page.repaint();
requestAnimationFrame(() => performance.mark("ready"));
