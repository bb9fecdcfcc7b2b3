"""`check-certificate`: prove every rewritten layer of a lowered model equal to the original."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irdeconv.base.errors import count, misused
from irdeconv.cli import second_proof
from irdeconv.cli.console import Console

if TYPE_CHECKING:
    from irdeconv.ir.spec import Shape
    from irdeconv.verify.certificates import CheckReport

WARNINGS = 5  # so many false declarations are shown


def run(args: argparse.Namespace, console: Console) -> int:
    """Check; the exit code is 0 if everything is proved."""
    from irdeconv.cli.certificates import SOME_SIZES, CheckDocument
    from irdeconv.cli.checks import is_onnx

    if args.file == args.lowered == "-":
        raise misused("stdin holds one model", "name a file for the other")
    if Path(args.file).resolve() == Path(args.lowered).resolve():
        message = f"{args.lowered} is the original itself, not a lowered model"
        raise misused(message, f"make one: irdeconv lower {args.file} -o lowered.xml")
    second_proof.refuse(args)
    shapes = _shapes(args)
    onnx = is_onnx(args.lowered) and (args.file == "-" or is_onnx(args.file))
    if onnx:
        from irdeconv.cli.lower_onnx import check_files

        report, probed = check_files(args, shapes)
    else:
        report, probed = _check_graphs(args, shapes)
    second = second_proof.run(args, shapes)
    code = exit_code(report, probed)
    if any(s.verdict == "differs" for s in second or ()):
        code = 1
    if console.wants_json:
        files = args.file, args.lowered
        console.json(CheckDocument(*files, code == 0, report, probed, second))
    else:
        _warn(report, console)
        _text(report, probed, console)
        second_proof.show(second, console)
        if not report.layers and not report.problems and not report.equal:
            console.text((_nothing(args, report), "red"))
        elif code == SOME_SIZES:
            console.text((_some_sizes(report), "yellow"))
    return code


def exit_code(report: CheckReport, probed: CheckReport | None) -> int:
    """Return 0 for every size, 7 for some or on assumptions, 1 for no.

    If a probe cannot decide, that is no difference.
    """
    if not report.equal or (probed is not None and probed.differs):
        return 1
    return 0 if report.passed else 7


def _shapes(args: argparse.Namespace) -> dict[str, Shape | None]:
    """Return --sizes and --shape by the name of the input; UsageError if they do not fit."""
    from irdeconv.cli.checks import parse_shapes
    from irdeconv.ir.spec import is_static

    texts = []
    for text in args.sizes:
        name, equals, dims = text.rpartition("=")
        if "[" in text or (not equals and "," not in text):
            raise misused(f"--sizes {text} is not NAME=DIMS", "such as --sizes x=1,3,64,64")
        texts.append(f"{name}[{dims}]")
    asked = parse_shapes(texts)
    for name, shape in asked.items():
        if not is_static(shape):
            raise misused(f"--sizes {name}: sizes are exact", "--shape takes open ones: 'x[1,3,?]'")
    shapes = parse_shapes(args.shape)
    both = sorted(set(asked) & set(shapes))
    if both:
        raise misused(f'--sizes and --shape both name "{both[0]}"', "leave one out")
    return {**shapes, **asked}


def _check_graphs(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None]
) -> tuple[CheckReport, CheckReport | None]:
    from irdeconv.cli.certificates import read_certificates
    from irdeconv.cli.model import given
    from irdeconv.verify.check import checked, probed
    from irdeconv.verify.proving import both_sides

    certificates = None if args.certificate is None else read_certificates(args.certificate)
    sides = both_sides(
        given(args.file, args.weights, args.semantics),
        given(args.lowered, args.lowered_weights, args.semantics),
        shapes,
    )
    report = checked(*sides, certificates)
    return report, probed(*sides, seed=args.seed) if args.probe else None


def _nothing(args: argparse.Namespace, report: CheckReport) -> str:
    """Report that there was nothing to prove, which proves nothing, and the expected LOWERED."""
    why = f"{args.file} has no deconvolutions"
    if report.kept:
        why = f"{args.lowered} has the deconvolutions of {args.file} as they are"
    return f"FAIL nothing to prove: {why}; LOWERED is what lower -o writes"


def _some_sizes(report: CheckReport) -> str:
    few = next((r for r in report.layers if not r.every), None)
    if few is None:
        return "proved only if what is assumed is so, which the file alone says"
    which = f'"{few.layer}" is proved for some sizes only'
    return f"NOT proved for every size: {which}; --sizes NAME=DIMS asks for exact ones"


def _warn(report: CheckReport, console: Console) -> None:
    """Print warnings for wrong declarations in a file, the first few only."""
    from irdeconv.cli.diagnostics import print_diagnostics

    print_diagnostics(console, report.warnings[:WARNINGS])
    more = len(report.warnings) - WARNINGS
    if more > 0:
        console.error(f"{count(more, 'more warning')}: irdeconv validate lists those of a file")


def _text(report: CheckReport, probed: CheckReport | None, console: Console) -> None:
    for line in str(report).split("\n"):
        console.text((line, "red" if line.startswith("FAIL") else ""))
    if probed is None:
        return
    for layer in probed.layers:
        done = f"ok   {layer.layer}: the same at {layer.proved}"
        failed = f"{'    ' if layer.unclear else 'FAIL'} {layer.layer}: {layer.reason}"
        console.text((f"probe {done}" if layer.passed else f"probe {failed}", _colour(layer)))
    bound = probed.error_probability
    again = f"--seed {probed.seed} repeats it"
    if bound is None:
        console.text(f"probe: nothing was evaluated to the end; {again}")
        return
    console.text(
        f"probe: a layer that differs at these sizes passes with a probability of at most "
        f"{bound:.1e}; other sizes were not evaluated; {again}"
    )


def _colour(layer: Any) -> str:
    return "" if layer.passed or layer.unclear else "red"
