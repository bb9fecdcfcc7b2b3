"""Python's cyclic collector, paused while a model is read, rewritten or planned."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector, which would search a million new objects to no effect.

    The code inside leaves almost no cycles, and reference counting goes on.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
