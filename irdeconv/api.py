"""The public functions; each CLI verb calls the one of its name.

They are loaded on first use: a verb takes no time for what the others need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irdeconv.public.editing import extract, rename, simplify
    from irdeconv.public.reading import convert, dump, in_file_order, infer, parse, read, validate
    from irdeconv.public.reducing import reduce
    from irdeconv.public.rewriting import (
        DEFAULT_FORM,
        certify,
        check_certificate,
        lower,
        raise_,
        stage,
        to_openvino,
        write,
    )
    from irdeconv.public.running import bench, compile, run
    from irdeconv.public.showing import compare, explain, inspect

_OFFERS = {
    "editing": "extract rename simplify",
    "reading": "convert dump in_file_order infer parse read validate",
    "reducing": "reduce",
    "rewriting": """DEFAULT_FORM certify check_certificate lower raise_ stage to_openvino
        write""",
    "running": "bench compile run",
    "showing": "compare explain inspect",
}
_HOMES = {name: module for module, names in _OFFERS.items() for name in names.split()}

__all__ = [
    "DEFAULT_FORM",
    "bench",
    "certify",
    "check_certificate",
    "compare",
    "compile",
    "convert",
    "dump",
    "explain",
    "extract",
    "in_file_order",
    "infer",
    "inspect",
    "lower",
    "parse",
    "raise_",
    "read",
    "reduce",
    "rename",
    "run",
    "simplify",
    "stage",
    "to_openvino",
    "validate",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    from importlib import import_module

    value = getattr(import_module(f"irdeconv.public.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
