"""Optional packages: importing them when they are used, and the error if that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from irdeconv.base.errors import Diagnostic, UnsupportedError

# The extra of pyproject.toml that installs a package, by the imported module.
INSTALLED_BY = {
    "dask": "distributed",
    "distributed": "distributed",
    "islpy": "isl",
    "numba": "fast",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "zarr": "distributed",
}
_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)
CAUSE_LENGTH = 200  # characters of the cause


@contextmanager
def plain(on: bool = True) -> Iterator[None]:
    """Let NumPy alone compute inside, or not: to load or compile a kernel may take longer."""
    token = _PLAIN.set(on)
    try:
        yield
    finally:
        _PLAIN.reset(token)


def is_plain() -> bool:
    """Whether NumPy alone computes."""
    return _PLAIN.get()


class ExtraError(Exception):
    """A package is missing or broken; the text continues "the package X ..."."""


def needed(what: str, module: str, *names: str) -> Any:
    """Import as `extra` does; UnsupportedError (E520) says that `what` needs the package."""
    try:
        return extra(module, *names)
    except ExtraError as e:
        raise lacking(what, module, str(e)) from e


def lacking(what: str, module: str, problem: str = "is not installed") -> UnsupportedError:
    """Return the error (E520) of a missing or broken package; its hint has the pip command."""
    package = module.partition(".")[0]
    hint = f"pip install 'irdeconv[{INSTALLED_BY[package]}]'"
    if not problem.endswith("not installed"):
        hint = f"install it anew: pip install --force-reinstall {package}"
    message = f"{what} needs the package {package}, which {problem}"
    return UnsupportedError(Diagnostic("E520", "error", message, hint=hint))


def extra(module: str, *names: str) -> Any:
    """Import a module that must have `names`; ExtraError if it is missing or broken.

    A broken installation raises anything: OSError for a missing library, RuntimeError for a version
    that does not fit, AttributeError. A mere folder of that name has none of the names.
    """
    try:
        imported = import_module(module)
        for name in names:
            getattr(imported, name)
    except Exception as e:
        package = module.partition(".")[0]
        if isinstance(e, ModuleNotFoundError) and e.name == package:
            raise ExtraError("is not installed") from None
        text = " ".join(str(e).split())
        shown = text if len(text) <= CAUSE_LENGTH else f"{text[: CAUSE_LENGTH - 3]}..."
        raise ExtraError(f"is installed but cannot be used: {type(e).__name__}: {shown}") from e
    return imported
