"""How the two models of a pair differ, by OpenVINO."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import irdeconv as ird
from pair_texts import Pair
from support.runtime_truth import Compiled, RefusedError, same

SAME = "the same"


def feeds(pair: Pair, model: Any) -> Iterator[list[Any]]:
    """Yield inputs for each run of a pair: what it says, or integers."""
    types = [np.dtype(i.element_type.to_dtype()) for i in model.inputs]
    rng, low = np.random.default_rng(0), -4 if pair.expect.startswith("equal") else 1
    for row in pair.at:
        yield [
            rng.integers(low, 6, v).astype(t) if isinstance(v, list) else v.astype(t)
            for v, t in zip(row, types, strict=True)
        ]


def difference(pair: Pair, paths: tuple[Path, Path]) -> str:
    """Return "values", "interface", what the runtime says where it refuses, or `SAME`."""
    try:
        wanted: Any = Compiled(paths[0])
    except RefusedError:
        wanted = None  # its deconvolution takes no output_shape that is an input
    try:
        found = Compiled(paths[1])
        if wanted is not None and wanted.interface != found.interface:
            return "interface"
        for given in feeds(pair, found.model):
            if wanted is None:
                names = [next(iter(i.names)) for i in found.model.inputs]
                expected = (
                    list(ird.run(paths[0], dict(zip(names, given, strict=True))).values()) * 2
                )
            else:
                expected = wanted.run(given)
            if not _close(found.run(given), expected, 2**-10 if len(pair.half) == 1 else 0):
                return "values"
    except RefusedError as e:
        return f"refused: {e}"
    return SAME


def _close(a: Sequence[Any], b: Sequence[Any], part: float) -> bool:
    """Whether results are equal, or differ by no more than a part of the largest one."""
    if not part or [v.shape for v in a] != [v.shape for v in b]:
        return same(a, b)
    return all(np.abs(v - w).max() <= part * np.abs(w).max() for v, w in zip(a, b, strict=True))
