"""The memory that calls take."""

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def peak_of(call: Callable[[], Made]) -> tuple[Made, int]:
    """What a call returns, and the bytes that it takes at most."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
