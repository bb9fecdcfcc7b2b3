"""Prove every rewritten layer of a lowered IR equal to the layer of the original, for all data.

All other layers must be the same in both. With --certificate the certificates of `lower --certify`
must state what the two models contain. With --probe both are also evaluated modulo a prime on
random data. Two ONNX models are compared as they are, node for node. Exit code 1 where anything is
not proved, or there is nothing to prove.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irdeconv.cli.console import Console
from irdeconv.cli.options import OptionParser, add_format, add_model, add_seed, add_shapes

if TYPE_CHECKING:
    from irdeconv.verify.proof.report import CheckReport


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    add_model(parser)
    parser.add_argument("lowered", metavar="LOWERED", help="the lowered model: .xml, .onnx")
    parser.add_argument("--lowered-weights", metavar="FILE", help="the lowered model's .bin")
    parser.add_argument("--certificate", metavar="FILE", help="certificates that must agree")
    parser.add_argument(
        "--probe", action="store_true", help="also evaluate both modulo a prime on random data"
    )
    add_seed(parser, "the probe")
    add_shapes(parser)
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Check; the exit code is 0 where everything is proved."""
    from irdeconv.cli.lower_onnx import check_files, is_onnx
    from irdeconv.errors import misused

    if args.file == args.lowered == "-":
        raise misused("stdin holds one model", "name a file for the other")
    if Path(args.file).resolve() == Path(args.lowered).resolve():
        message = f"{args.lowered} is the original itself, where a lowered model is meant"
        raise misused(message, f"make one: irdeconv lower {args.file} -o lowered.xml")
    onnx = is_onnx(args.lowered) and (args.file == "-" or is_onnx(args.file))
    report, probed = check_files(args) if onnx else _check_graphs(args)
    passed = report.passed and (probed is None or probed.passed)
    if console.wants_json:
        content: dict[str, Any] = {"file": args.file, "lowered": args.lowered, "passed": passed}
        content["proof"] = report.to_dict()
        content["probe"] = None if probed is None else {"seed": args.seed, **probed.to_dict()}
        console.json("check-certificate", content)
    else:
        _text(report, probed, console)
        if not report.layers and not report.problems:
            console.text((_nothing(args, report), "red"))
    return 0 if passed else 1


def _check_graphs(args: argparse.Namespace) -> tuple[CheckReport, CheckReport | None]:
    from irdeconv.cli.certificates import read_certificates
    from irdeconv.cli.model import inferred, read, read_file
    from irdeconv.verify.proof.certificate import check, probe_layers

    certificates = None if args.certificate is None else read_certificates(args.certificate)
    source = inferred(read(args), args.shape)
    lowered = read_file(args.lowered, args.lowered_weights, args.semantics)
    probed = probe_layers(source, lowered, seed=args.seed) if args.probe else None
    return check(source, lowered, certificates), probed


def _nothing(args: argparse.Namespace, report: CheckReport) -> str:
    """Say that there was nothing to prove, which proves nothing, and what was expected."""
    what = f"{args.file} has no deconvolutions"
    if report.kept:
        what = f"{args.lowered} has the deconvolutions of {args.file} as they are"
    return f"FAIL nothing to prove: {what}; LOWERED is what lower -o writes"


def _text(report: CheckReport, probed: CheckReport | None, console: Console) -> None:
    for line in str(report).split("\n"):
        console.text((line, "red" if line.startswith("FAIL") else ""))
    if probed is None:
        return
    for layer in probed.layers:
        done = f"ok   {layer.layer}: the same at {layer.proved}"
        console.text(f"probe {done}" if layer.passed else (f"probe {layer}", "red"))
    bound = probed.error_probability
    console.text(f"probe: a layer that differs passes with a probability of at most {bound:.1e}")
