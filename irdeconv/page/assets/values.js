// What flowed through a layer in a run.

// Adds the values of a layer to a container; nothing where there are none.
function showValues(container, key) {
  overlayNotes(container, key);
}
