"""Python's cyclic collector, paused while a model is read, rewritten or planned."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector: among a million new objects it looks for garbage in vain.

    What is inside leaves next to no cycles behind; the usual reference counts go on.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
