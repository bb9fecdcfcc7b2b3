"""Random samples of operations whose inputs have a meaning: axes, splits, indices, windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from support.live_operations.sample import Sample

Generator = Callable[[np.random.Generator, str, str], Sample | None]
GENERATORS: dict[str, Generator] = {}
