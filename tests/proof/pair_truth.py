"""How two models of an unsound pair differ, by the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from pair_parts import Pair
from support.runtime_truth import Compiled, RefusedError, same

SAME = "the same"


def difference(pair: Pair, folder: Path) -> str:
    """Return "values", "interface", what the runtime says where it refuses, or `SAME`."""
    original = folder / "original.xml"
    try:
        wanted: Any = Compiled(original)
    except RefusedError:
        wanted = None  # its deconvolution takes no output_shape that is an input
    try:
        found = Compiled(folder / "lowered.xml")
    except RefusedError as e:
        return f"refused: {e}"
    if wanted is not None and wanted.interface != found.interface:
        return "interface"
    if not pair.shapes:
        return SAME
    types = [np.dtype(i.element_type.to_dtype()) for i in found.model.inputs]
    feeds = pair.feeds(np.random.default_rng(0), types)
    if wanted is None:
        names = [next(iter(i.names)) for i in found.model.inputs]
        expected = list(ird.run(original, dict(zip(names, feeds, strict=True))).values()) * 2
    else:
        expected = wanted.run(feeds)
    try:
        return SAME if same(found.run(feeds), expected) else "values"
    except RefusedError as e:
        return f"refused: {e}"
