// Numbers of the layers as colours on the graph.

// The colour of a layer, or null where nothing is painted on it.
function overlayColour(key) {
  return null;
}

// Changes whenever other colours are painted.
function overlayState() {
  return "";
}

// Fills a container with the choice of an overlay and what its colours mean.
function overlayLegend(container) {
  container.replaceChildren();
}
