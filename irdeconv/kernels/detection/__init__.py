"""Finding boxes: suppression of overlapping ones."""
