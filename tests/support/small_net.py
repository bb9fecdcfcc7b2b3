"""The network of most tests of the command line: one small deconvolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.ir_text import write_ir
from support.layers import Layer

LAYER = Layer(1, (4, 4), None, 3, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0))
W = np.arange(54, dtype=np.float32).reshape(3, 2, 3, 3)


def write_small_net(folder: Path) -> Path:
    """Write net.xml and net.bin into a folder."""
    path = folder / "net.xml"
    write_ir(path, LAYER, W)
    return path
