"""The optional compiler: whether numba is there and wanted, and how functions are compiled.

The extra `fast` installs numba; IRDECONV_FAST=0 in the environment switches it off. Compiled code
is kept on disk, so that only the first use on a machine takes a few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, TypeVar, cast

from irdeconv import progress
from irdeconv.extras import ExtraError, extra

COMPILING = "compiling kernels for this machine, once"
F = TypeVar("F", bound=Callable[..., Any])


@cache
def installed() -> bool:
    """Whether numba is installed and can be imported; NumPy does all of it otherwise."""
    try:
        extra("numba", "njit")
    except ExtraError:
        return False  # `irdeconv doctor` tells why
    return True


def available() -> bool:
    """Whether compiled kernels are used: numba is there and IRDECONV_FAST is not 0."""
    return os.environ.get("IRDECONV_FAST", "1") != "0" and installed()


@cache
def _report_compiling() -> None:
    """Let whoever listens to progress know when numba compiles instead of reading from disk."""
    from numba.core import event  # type: ignore[import-not-found, import-untyped, unused-ignore]

    class Compiling(event.Listener):  # type: ignore[misc, unused-ignore]
        """One stage for a function and those that it calls."""

        def __init__(self) -> None:
            self.depth = 0
            self.stage = ExitStack()

        def on_start(self, event: Any) -> None:
            if self.depth == 0:
                self.stage.enter_context(progress.stage(COMPILING))
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.stage.close()

    event.register("numba:compile", Compiling())


def compiled_for(signature: Any) -> Callable[[F], F]:
    """Compile for one signature, whatever the layouts of the arrays that are given.

    Float arithmetic may be contracted (fused multiply-add), no more: infinities, NaN and the order
    of sums stay as they are written.
    """

    def compile(fn: F) -> F:
        from numba import njit  # type: ignore[import-not-found, import-untyped, unused-ignore]

        _report_compiling()
        options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
        try:
            return cast(F, njit(signature, cache=True, **options)(fn))
        except RuntimeError:  # no directory can be written
            return cast(F, njit(signature, **options)(fn))

    return compile


def compiled(fn: F) -> F:
    """Compile at the first call, for the types that are given."""
    return compiled_for(None)(fn)
