"""Turn decompositions of a deconvolution back into one deconvolution, and report each.

Three patterns are found: inserted zeros in front of a convolution; convolutions whose channels are
interleaved in space; data enlarged by repetition in front of a convolution. --only upsample also
finds a resize without a convolution. A pattern that is not proved equal to a deconvolution stays as
it is, and the report says why.

-o writes the new model (.xml and .bin). --format ir prints it in its text form, and the report goes
to stderr. --certify proves each new layer equal to what it replaces.

Exit code 1: a layer is not proved. 7: a layer is proved for some sizes only, or under the
assumptions that are listed.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from irdeconv.base import gc_pause
from irdeconv.base.errors import count
from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser, add_model, add_rewriting

if TYPE_CHECKING:
    from irdeconv.rewrite.raising import Raised
    from irdeconv.verify.certificates import Certificates
    from irdeconv.verify.proving import Given


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        help="look for this pattern only (repeatable): zero-insertion, phases, depth-to-space, "
        "resize, upsample (the last one only if it is named)",
    )
    add_rewriting(parser, "raised", "raised")


def run(args: argparse.Namespace, console: Console) -> int:
    """Raise, write, report."""
    import irdeconv as ird
    from irdeconv.cli.certificates import finish_rewriting, refuse_probe
    from irdeconv.cli.model import inferred, original, protect_proved, read, shapes_for
    from irdeconv.verify.check import certified
    from irdeconv.verify.proving import both_sides

    refuse_probe(args)
    protect_proved(args)
    source = inferred(read(args), args.shape)
    raised = ird.raise_(source, args.only)
    show = partial(_text, args=args, console=console)

    @gc_pause.paused()
    def prove(written: Given) -> Certificates:
        shapes = shapes_for(source, args.shape)
        sides = both_sides(written, original(args, source), shapes)
        return certified(*sides, probe=args.probe)

    return finish_rewriting("raise", args, raised, console, prove=prove, show=show)


def _text(raised: Raised, args: argparse.Namespace, console: Console) -> None:
    from irdeconv.base.tables import number, table
    from irdeconv.rewrite.infer_specs import layer_count
    from irdeconv.show.inspection import ratio

    report = raised.report
    if not len(report):
        console.text(f"{args.file}: no decompositions, nothing to raise")
        return
    done = [r for r in report if r.pattern]
    if done:
        head = ("layer", "pattern", "becomes", "MACs before", "raised MACs", "ratio")
        rows = [
            (
                r.name,
                r.pattern or "",
                r.type,
                number(r.macs_before),
                number(r.macs_raised),
                ratio(r.macs_raised, r.macs_before),
            )
            for r in done
        ]
        console.text(
            table(head, rows, ("MACs before", "raised MACs", "ratio"), width=console.width)
        )
    for r in report:
        if not r.pattern:
            console.text(f"{r.name}: {r.type} stays: {r.reason}")
        elif r.note:
            console.text(f"{r.name}: {r.note}")
    verdict = count(len(done), "decomposition") + f" of {len(report)} raised"
    console.text(f"{args.file}: {verdict}; {layer_count(raised.graph)}")
