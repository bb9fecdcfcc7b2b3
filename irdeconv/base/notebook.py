"""Errors in notebooks: the user's lines and the message, without the frames of the package.

IPython asks an exception for `_render_traceback_`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_PACKAGE = str(Path(__file__).parents[1])


def brief(error: BaseException) -> list[str]:
    """Return the lines that IPython prints; all frames after `%xmode Verbose`."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    table: Any = getattr(shell, "InteractiveTB", None)
    if getattr(table, "mode", "") == "Verbose":
        return [*table.structured_traceback(type(error), error, error.__traceback__)]
    return [*_own_lines(error, shell), f"{type(error).__name__}: {error}"]


def _own_lines(error: BaseException, shell: Any) -> list[str]:
    """Return place and text of each line that is neither the package's nor of an installed one."""
    import sysconfig
    import traceback

    paths = sysconfig.get_paths()
    others = (_PACKAGE, *(paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")))
    out = []
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((*others, "<frozen")):
            cell = None
            with suppress(AttributeError):
                cell = shell.compile.format_code_name(frame.filename)
            place = " ".join(cell) if cell else f"File {frame.filename}"
            out += [f"{place}, line {frame.lineno}", f"    {frame.line}", ""]
    return out
