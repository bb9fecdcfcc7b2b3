"""Explain deconvolutions: the output size term by term, the pads, a picture, the other systems.

Without LAYER, all deconvolutions are explained if there are only a few. Exit code 1: the system
that a layer belongs to would reject it.

--format svg draws every axis with its inserted zeros, pads, taps and phases, and how many taps
reach each output. -o FILE.svg writes the picture.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from irdeconv.cli.console import Console
from irdeconv.cli.verbs import Verb

if TYPE_CHECKING:
    from irdeconv.show.explanation import Explanation


VERB = Verb(
    """
    + STRUCTURE
    [LAYER]  the name of a deconvolution
    --solve SIZE[,SIZE]  list attributes of the layer's dialect that give this output size (one for
        all axes, or one per axis), the smallest changes first
    + SHAPE
    -o --output FILE  write the result here instead of stdout @writes text
    + FORCE
    --format text|json|svg  how the result is written (default: %(default)s) @default text
    """,
    no="the layer's own system refuses it",
    example="irdeconv explain ir_samples/openvino/deconv_3x3_to_5x5.xml",
    guide="dialects",
)


def run(args: argparse.Namespace, console: Console) -> int:
    """Explain."""
    import irdeconv as ird
    from irdeconv.cli.model import read, shapes_for
    from irdeconv.cli.output import write_text

    graph = read(args)
    shapes = shapes_for(graph, args.shape)
    found = ird.explain(graph, args.layer, solve=_sizes(args.solve), shapes=shapes)
    if args.output is None and console.format == "text":
        console.text(str(found))
    else:
        write_text(args.output, _render(found, args, console), console)
    return 0 if found.accepted else 1


def _render(found: Explanation, args: argparse.Namespace, console: Console) -> str:
    from irdeconv.base.tables import printable, wrap

    if console.format == "svg":
        return found.to_svg()
    if console.wants_json:
        document = {"schema": "irdeconv/explain/1", "file": args.file, **found.to_dict()}
        return json.dumps(document, indent=1) + "\n"
    return wrap(printable(str(found))) + "\n"


def _sizes(text: str | None) -> list[int] | None:
    from irdeconv.base.errors import misused
    from irdeconv.ir.attributes import parse_int

    if text is None:
        return None
    try:
        return [parse_int(part) for part in text.split(",")]
    except ValueError as e:
        hint = "one size for all axes, or one per axis: --solve 64,64"
        raise misused(f"--solve {text}: {e}", hint) from None
