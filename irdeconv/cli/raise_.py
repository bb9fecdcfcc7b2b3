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
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.verbs import HEAD, Verb

if TYPE_CHECKING:
    from irdeconv.rewrite.raising import Raised
    from irdeconv.verify.certificates import Certificates
    from irdeconv.verify.proving import Given


VERB = Verb(
    """
    + MODEL
    --only PATTERN ...  look for this pattern only (repeatable): zero-insertion, phases,
        depth-to-space, resize, upsample (the last one only if it is named)
    + SHAPE
    -o --output FILE  write the raised IR here (.xml, .bin beside it) @writes model .xml
    + FORCE
    --certify [FILE]  prove every raised layer and show the certificates, or write them to FILE
        @const - @writes file
    + PROBE
    --format text|json|ir  how the result is written (default: %(default)s) @default text
    """,
    no="with `--certify`: a layer is not proved",
    example=f"irdeconv lower {HEAD} --form stacked -o lowered.xml\n"
    "irdeconv raise lowered.xml -o raised.xml",
    guide="lowering",
    partly=True,
)


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Raise, write, report."""
    import irdeconv as ird
    from irdeconv.cli.certificates import finish_rewriting
    from irdeconv.cli.model import inferred_model, original, shapes_for
    from irdeconv.verify.check import certified
    from irdeconv.verify.proving import both_sides

    source = inferred_model(args)
    raised = ird.raise_(source, args.only or None)
    show = partial(_text, args=args, console=console)

    @gc_pause.paused()
    def prove(written: Given) -> Certificates:
        shapes = shapes_for(source, args.shape)
        sides = both_sides(written, original(args, source), shapes)
        return certified(*sides, probe=args.probe)

    return finish_rewriting(args, raised, console, prove=prove, show=show)


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
