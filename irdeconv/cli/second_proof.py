"""`--second` of check-certificate: a checker on isl that shares nothing with the proof."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.cli.console import Console

if TYPE_CHECKING:
    from irdeconv.ir.spec import Shape
    from irdeconv.verify.second_check import SecondAnswer
    from irdeconv.verify.second_reading import SecondModel


def refuse(args: argparse.Namespace) -> None:
    """Raise UnsupportedError if the option needs a package that is missing."""
    from irdeconv.base.extras import needed

    if args.second:
        needed("--second", "islpy", "Map")


def run(args: argparse.Namespace, shapes: Mapping[str, Shape | None]) -> list[SecondAnswer] | None:
    """Return an answer for each rewritten layer and for the model, None without the option."""
    if not args.second:
        return None
    from irdeconv.verify.second_check import NOT_APPLICABLE, SecondAnswer, second_check
    from irdeconv.verify.second_reading import Unfollowed

    document = args.semantics == "document"
    files = (args.file, args.weights), (args.lowered, args.lowered_weights)
    try:
        source, lowered = (_model(*file, document) for file in files)
        source.shapes = lowered.shapes = _by_place(source, shapes)
        return second_check(source, lowered)
    except Unfollowed as e:
        return [SecondAnswer("the model", NOT_APPLICABLE, str(e))]


def _model(file: str, weights: str | None, document: bool) -> SecondModel:
    """Return an IR as its files are, any other model as the IR that irdeconv writes for it."""
    from irdeconv.cli.model import given
    from irdeconv.formats.models import graph_of
    from irdeconv.formats.xml_writer import ir_bytes
    from irdeconv.verify.second_reading import SecondModel

    one = given(file, weights)
    if one.is_ir:
        path = Path(weights) if weights else Path(file).with_suffix(".bin")
        held = path.read_bytes() if path.exists() else b""
        return SecondModel(Path(file).read_bytes(), held, document)
    graph = graph_of(one.model, one.weights, name=one.name, recognised=False)
    return SecondModel(*ir_bytes(graph), document)


def _by_place(model: SecondModel, shapes: Mapping[str, Shape | None]) -> dict[int, list[str]]:
    """Return the shapes of inputs by their number, as texts."""
    from irdeconv.formats.text_values import format_dim

    made = {}
    for number in model.places("Parameter"):
        y = model.layers[number]
        for name in {"", y.name, *y.names[0]} & {*shapes}:
            made[number] = [format_dim(d) for d in shapes[name] or ()]
    return made


def show(made: Sequence[SecondAnswer] | None, console: Console) -> None:
    """Print the answers."""
    for one in made or ():
        word = {"agrees": "ok  ", "differs": "FAIL"}.get(one.verdict, "    ")
        console.text((f"second {word} {one}", "red" if word == "FAIL" else ""))
