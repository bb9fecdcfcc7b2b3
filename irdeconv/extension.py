"""Operations of your own: what a module imports that defines some, and how such a file is loaded.

    from irdeconv.extension import Op, Spec, op

docs/extensions.md has an example.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType

from irdeconv.access import unreadable
from irdeconv.dtypes import ElementType as ElementType
from irdeconv.errors import IrdeconvError, misused
from irdeconv.errors import OpError as OpError
from irdeconv.errors import Problem as Problem
from irdeconv.op import REGISTRY, TYPES
from irdeconv.op import Builder as Builder
from irdeconv.op import Op as Op
from irdeconv.op import SugarOp as SugarOp
from irdeconv.op import attribute as attribute
from irdeconv.op import op as op
from irdeconv.opening import open_file
from irdeconv.spec import Array as Array
from irdeconv.spec import Shape as Shape
from irdeconv.spec import Spec as Spec
from irdeconv.traits import COMPOSITE as COMPOSITE
from irdeconv.traits import FUNCTION as FUNCTION
from irdeconv.traits import JUMPS as JUMPS
from irdeconv.traits import KEEPS as KEEPS
from irdeconv.traits import MOVES as MOVES
from irdeconv.traits import SCALE as SCALE
from irdeconv.traits import SUM as SUM
from irdeconv.traits import Rounding as Rounding

MOST_REASON = 2000  # characters
_LOADED: dict[Path, ModuleType] = {}


def load(path: str | PathLike[str]) -> ModuleType:
    """Execute a Python file that defines operations; the second time it changes nothing.

    What it registered before it failed is taken back. Raises FileAccessError where there is no
    such file, UsageError (E700) where it raises anything.
    """
    file = Path(path)
    try:
        open_file(file).close()
    except (OSError, ValueError) as e:  # a ValueError: the path has a NUL
        raise unreadable(fspath(path), e, "the extension ") from None
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
    """Say what was raised, and at which line of the file."""
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
