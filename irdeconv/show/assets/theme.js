// Light and dark. The colours stand in page.css as variables; canvases and SVG read them here.

const COLOURS = [
  "ground", "surface", "raised", "text", "quiet", "line", "edge", "accent", "hit", "related", "group",
  "added", "rewritten", "removed", "deconvolution", "ending", "convolution", "arithmetic",
  "pooling", "movement", "control", "other",
];

const theme = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = { value: null };
  const palettes = new Map();

  function apply() {
    root.dataset.theme = chosen.value ?? (system.matches ? "dark" : "light");
    page.repaint();
  }

  // What the variables say in a theme; `name` need not be the one that is shown.
  function palette(name = root.dataset.theme) {
    if (!palettes.has(name)) {
      const shown = root.dataset.theme;
      root.dataset.theme = name;
      const style = getComputedStyle(root);
      const read = COLOURS.map((key) => [key, style.getPropertyValue(`--${key}`).trim()]);
      palettes.set(name, Object.fromEntries(read));
      root.dataset.theme = shown;
    }
    return palettes.get(name);
  }

  function toggle() {
    chosen.value = root.dataset.theme === "dark" ? "light" : "dark";
    apply();
    announce(`${chosen.value} colours`);
  }

  system.addEventListener("change", apply);
  apply();
  return { palette, toggle, get dark() { return root.dataset.theme === "dark"; } };
})();

// Black or white, whichever reads better on a colour that is given as #rrggbb or rgb(r, g, b).
function textOn(colour) {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(colour);
  const parts = hex
    ? hex.slice(1).map((part) => parseInt(part, 16))
    : (colour.match(/[\d.]+/g) ?? [255, 255, 255]).map(Number);
  const [r, g, b] = parts.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  // Above this luminance black has the larger contrast (WCAG 2).
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
