"""Draw graphs: text that fits its box, layered layout, groups, SVG. Knows nothing of operations."""
