"""Read models for the verbs: files or stdin, shapes from --shape, protected inputs of -o."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from irdeconv import api
from irdeconv.errors import Diagnostic, IrdeconvError, UsageError
from irdeconv.graph import Graph
from irdeconv.spec import Shape, parse_shape
from irdeconv.suggest import did_you_mean

_SHAPE = re.compile(r"\s*(?P<name>.*?)\s*:?\s*\[(?P<dims>[^\[\]]*)\]\s*(?:,|$)", re.DOTALL)
_spooled: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends


def usage(message: str, hint: str | None = None) -> UsageError:
    """Return the error of an argument that does not fit."""
    return UsageError(Diagnostic("E700", "error", message, hint=hint))


def validate_file(file: str, weights: str | None) -> list[Diagnostic]:
    """Validate one file; `-` is stdin."""
    with _path(file) as path:
        found = api.validate(path, weights=weights)
        if file == "-":
            _relabel(found)
        return found


def read(args: argparse.Namespace) -> Graph:
    """Read the model that FILE, --weights and --semantics name."""
    return read_file(args.file, args.weights, args.semantics)


def read_file(file: str, weights: str | None = None, semantics: str = "runtime") -> Graph:
    """Read one model; `-` is stdin."""
    with _path(file) as path:
        graph = api.read(path, weights=weights, semantics=semantics)  # type: ignore[arg-type]
    if file == "-":
        for node in graph.nodes():
            if node.location is not None:
                node.location.source.path = "<stdin>"
    return graph


@contextmanager
def _path(file: str) -> Iterator[str]:
    if file != "-":
        yield file
        return
    _spooled.append(tempfile.TemporaryDirectory(prefix="irdeconv-"))
    path = Path(_spooled[-1].name, "stdin.xml")
    path.write_bytes(sys.stdin.buffer.read())
    try:
        yield str(path)
    except IrdeconvError as e:
        raise type(e)(_relabel(e.diagnostics)) from e


def _relabel(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    for d in diagnostics:
        for place in (d.location, *(n.location for n in d.notes)):
            if place is not None:
                place.source.path = "<stdin>"
    return diagnostics


def input_names(graph: Graph) -> dict[str, str]:
    """Return every name that an input answers to: itself, its layer, its tensor names."""
    found: dict[str, str] = {}
    for node, name in zip(graph.parameters, graph.inputs, strict=True):
        aliases = (node.name, *(t for names in node.tensor_names for t in names))
        for alias in (name, *aliases):
            found.setdefault(alias, name)
    return found


def unknown_input(name: str, graph: Graph) -> UsageError:
    """Return the error of a name that no input has."""
    names = ", ".join(f'"{n}"' for n in graph.inputs) or "none"
    return usage(
        f'the model has no input "{name}"; it has {names}', did_you_mean(name, input_names(graph))
    )


def parse_shapes(texts: Iterable[str]) -> dict[str, Shape | None]:
    """Parse `x[1,3]`, `x:[1,3]`, `[1,3]`, `1,3` and lists of them; the name may be empty."""
    out: dict[str, Shape | None] = {}
    for text in texts:
        items = [("", text)] if "[" not in text else _split(text)
        for name, dims in items:
            if name in out:
                raise usage(f'--shape names "{name}" twice')
            try:
                out[name] = parse_shape(dims)
            except ValueError as e:
                raise usage(f"--shape {text}: {e}") from None
    return out


def _split(text: str) -> list[tuple[str, str]]:
    out, at = [], 0
    while at < len(text):
        m = _SHAPE.match(text, at)
        if m is None:
            raise usage(f"--shape {text}: write it as 'x[1,3,224,224]' or 'x:[1,3,224,224]'")
        out.append((m["name"], m["dims"]))
        at = m.end()
    return out


def shapes_for(graph: Graph, texts: Iterable[str]) -> dict[str, Shape | None]:
    """Return --shape by input name; an unnamed shape belongs to a single input."""
    known = input_names(graph)
    out: dict[str, Shape | None] = {}
    for name, shape in parse_shapes(texts).items():
        if not name and len(graph.inputs) != 1:
            raise usage(f"--shape needs a name: the model has {len(graph.inputs)} inputs")
        target = known.get(name) if name else graph.inputs[0]
        if target is None:
            raise unknown_input(name, graph)
        out[target] = shape
    return out


def inferred(graph: Graph, texts: Iterable[str]) -> Graph:
    """Infer a graph with the shapes of --shape."""
    return api.infer(graph, shapes=shapes_for(graph, texts) or None)


def protect(output: str | None, sources: Iterable[str | None], *, force: bool) -> None:
    """Refuse an output that is one of the inputs, also through links and as its `.bin`."""
    if output is None or output == "-" or force:
        return
    targets = {Path(output).resolve(), Path(output).with_suffix(".bin").resolve()}
    for source in sources:
        if source is None or source == "-":
            continue
        for path in (Path(source), Path(source).with_suffix(".bin")):
            if path.resolve() in targets:
                raise usage(f"-o {output} would overwrite the input {path}", "--force allows it")
