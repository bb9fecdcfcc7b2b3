"""docs/python.md: every public name of the package, from its signature and docstring."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import irdeconv as ird
from pages import DOCS, comments, with_parts

# The public functions by module, below its docstring; the other names by topic.
_MODULES = [f"public.{m}" for m in ("reading", "rewriting", "editing", "running", "showing")]
SECTIONS = {
    **{(import_module(f"irdeconv.{m}").__doc__ or "")[:-1]: ird._OFFERS[m] for m in _MODULES},
    "Supported operations": "operations",
    "ONNX": "lower_onnx check_onnx",
    "Conformance vectors": "suite run_suite check_suite",
    "The graph": "Graph Node Value Op Spec Interval Limits Target",
    "Results": """Lowered LoweringReport LoweredOnnx Raised RaisingReport Simplified
        SimplificationReport Plan BenchReport Certificate Certificates CheckReport Comparison
        Reduced Inspection Explanation Operations PageContent Suite SuiteReport""",
    "Errors": """IrdeconvError Diagnostic InputError InferenceError LoweringError TargetError
        ExecutionError UnsupportedError LimitError FileAccessError UsageError FailedError
        ArgumentTypeError NothingToReduceError""",
    "Types of arguments": "ModelLike HoldsGraph OnnxModel OpenVinoModel",
}
WIDTH = 100


def pages() -> dict[Path, str]:
    """Return the text of the page."""
    lines: list[str] = []
    for title, names in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in names.split():
            lines += ["", *_entry(name, getattr(ird, name))]
    return with_parts(DOCS / "python.md", {"all": "\n".join(lines[1:])})


def missing() -> set[str]:
    """Return public names that no section has."""
    listed = {name for names in SECTIONS.values() for name in names.split()}
    return set(ird.__all__) - listed - {"__version__"}


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}"
    if inspect.isfunction(value):
        yield from ("", _signature(f"ird.{name}", value), "", _text(value))
    elif not inspect.isclass(value):
        yield from ("", f"`{value}`".replace("typing.", ""))
    elif issubclass(value, Exception):
        bases = [b.__name__ for b in value.__mro__[1:] if b not in (object, BaseException)]
        yield from ("", _text(value), "", f"Is also: {', '.join(f'`{b}`' for b in bases)}.")
    else:
        yield from ("", _text(value))
        yield from _members(value)


def _members(cls: type) -> Iterator[str]:
    """Yield properties and fields as a table, methods below it."""
    own = {n: v for n, v in vars(cls).items() if not n.startswith("_")}
    own |= {"to_dict": cls.to_dict} if hasattr(cls, "to_dict") else {}  # of Record
    fields = {n: str(t) for n, t in getattr(cls, "__annotations__", {}).items() if n[0] != "_"}
    properties = {n: v for n, v in own.items() if isinstance(v, property)}
    if fields or properties:
        yield from ("", "| attribute | type | |", "|---|---|---|")
    for name, kind in fields.items():
        text = _cell(comments(cls).get(name, ""))
        yield f"| `{name}` | `{_cell(_annotated(kind))}` | {text}{' ' * bool(text)}|"
    for name, value in properties.items():
        kind = _cell(str(value.fget.__annotations__.get("return", "")))
        yield f"| `{name}` | `{kind}` | {_cell(_text(value).partition(chr(10))[0])} |"
    for name, value in own.items():
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function):
            yield from ("", _signature(f"{cls.__name__}.{name}", function), "", _text(function))


def _annotated(kind: str) -> str:
    """Return the T of `Annotated[T, J]`."""
    if not kind.startswith("Annotated["):
        return kind
    return ast.unparse(ast.parse(kind, mode="eval").body.slice.elts[0])  # type: ignore[attr-defined]


def _signature(name: str, function: Any) -> str:
    """Return a call with types, an argument on each line where it is long."""
    signature = inspect.signature(function)
    arguments = list(_arguments(signature))
    result = signature.return_annotation
    end = "" if result is inspect.Signature.empty else f" -> {result}"
    text = f"{name}({', '.join(arguments)}){end}"
    if len(text) > WIDTH:
        text = f"{name}(\n{''.join(f'    {a},{chr(10)}' for a in arguments)}){end}"
    return f"```text\n{text}\n```"


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """Yield what stands between the brackets, `*` before arguments that need their names."""
    starred = False
    for p in signature.parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred |= p.kind is p.VAR_POSITIONAL
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {p.default!r}"
        yield f"{star}{p.name}: {p.annotation}{default}"


def _text(value: Any) -> str:
    """Return a docstring as Markdown: its examples become blocks."""
    text = (inspect.getdoc(value) or "").strip()
    block = lambda example: f"```pycon\n{example[0].rstrip()}\n```\n"  # noqa: E731
    return re.sub(r"^>>> (?:.+\n?)+", block, text, flags=re.M)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
