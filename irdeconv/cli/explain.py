"""Explain deconvolutions: the output size term by term, the pads, a picture, the other systems.

Without LAYER all deconvolutions are explained where they are few. Exit code 1 where the layer's
own system rejects it.
"""

from __future__ import annotations

import argparse

from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser, add_format, add_model, add_shapes


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser, structure=True)
    parser.add_argument("layer", metavar="LAYER", nargs="?", help="the name of a deconvolution")
    parser.add_argument(
        "--solve",
        metavar="SIZE[,SIZE]",
        help="list attributes of the layer's dialect that give this output size (one for all axes, "
        "or one per axis), the smallest changes first",
    )
    add_shapes(parser)
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Explain."""
    import irdeconv as ird
    from irdeconv.cli.model import read, shapes_for

    graph = read(args)
    shapes = shapes_for(graph, args.shape)
    found = ird.explain(graph, args.layer, solve=_sizes(args.solve), shapes=shapes)
    if console.wants_json:
        console.json("explain", {"file": args.file, **found.to_dict()})
    else:
        console.text(str(found))
    return 0 if found.accepted else 1


def _sizes(text: str | None) -> list[int] | None:
    from irdeconv.attributes import parse_int
    from irdeconv.errors import misused

    if text is None:
        return None
    try:
        return [parse_int(part) for part in text.split(",")]
    except ValueError as e:
        hint = "one size for all axes, or one per axis: --solve 64,64"
        raise misused(f"--solve {text}: {e}", hint) from None
