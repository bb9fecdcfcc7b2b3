"""Operations of your own: the names for a module that defines some, and the loader of such a file.

    from irdeconv.extension import Op, Spec, op

docs/extensions.md has an example.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType

from irdeconv.base.errors import IrdeconvError, misused
from irdeconv.base.errors import OpError as OpError
from irdeconv.base.errors import Problem as Problem
from irdeconv.base.opening import open_file, unreadable
from irdeconv.ir.dtypes import ElementType as ElementType
from irdeconv.ir.op import COMPOSITE as COMPOSITE
from irdeconv.ir.op import FUNCTION as FUNCTION
from irdeconv.ir.op import JUMPS as JUMPS
from irdeconv.ir.op import KEEPS as KEEPS
from irdeconv.ir.op import MOVES as MOVES
from irdeconv.ir.op import REGISTRY, TYPES
from irdeconv.ir.op import SCALE as SCALE
from irdeconv.ir.op import SUM as SUM
from irdeconv.ir.op import Builder as Builder
from irdeconv.ir.op import Op as Op
from irdeconv.ir.op import Rounding as Rounding
from irdeconv.ir.op import SugarOp as SugarOp
from irdeconv.ir.op import attribute as attribute
from irdeconv.ir.op import op as op
from irdeconv.ir.spec import Array as Array
from irdeconv.ir.spec import Shape as Shape
from irdeconv.ir.spec import Spec as Spec

MOST_REASON = 2000  # characters
_LOADED: dict[Path, ModuleType] = {}


def load(path: str | PathLike[str]) -> ModuleType:
    """Execute a Python file that defines operations; the second time it changes nothing.

    If it fails, the operations that it registered are removed again. Raises FileAccessError if
    there is no such file, UsageError (E700) if it raises an exception.
    """
    file = Path(path)
    try:
        open_file(file).close()
    except (OSError, ValueError) as e:  # a ValueError: the path has a NUL
        found = unreadable(fspath(path), e, "the extension ")
        if file.is_dir():
            found.diagnostics = [replace(found.diagnostics[0], hint="name a .py file in it")]
        raise found from None
    key = file.resolve()
    if key not in _LOADED:
        _LOADED[key] = _executed(key, fspath(path))
    return _LOADED[key]


def _executed(file: Path, shown: str) -> ModuleType:
    name = f"irdeconv_extension_{len(_LOADED)}_{file.stem}"
    found = spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise misused(f"the extension {shown} is no Python module", "its name ends in .py")
    module = module_from_spec(found)
    known, kinds = dict(REGISTRY), {kind: list(classes) for kind, classes in TYPES.items()}
    sys.modules[name] = module  # where pickle looks for its classes
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as e:
        del sys.modules[name]
        REGISTRY.clear()
        REGISTRY.update(known)
        TYPES.clear()
        TYPES.update(kinds)
        if isinstance(e, (IrdeconvError, MemoryError)):
            raise
        raise misused(f"the extension {shown} {_reason(e, file)}", "correct it") from e
    return module


def _reason(error: BaseException, file: Path) -> str:
    """Describe an exception, with the line of the file that raised it."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" at line {line}" if line else ""
    text = f"{error}"
    text = text if len(text) <= MOST_REASON else f"{text[:MOST_REASON]}..."
    return f"cannot be loaded{where}: {type(error).__name__}: {text}"
