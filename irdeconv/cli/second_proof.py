"""`--smt` of check-certificate: layers are proved once more, by an SMT solver."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.cli.console import Console

if TYPE_CHECKING:
    from irdeconv.ir.spec import Shape
    from irdeconv.verify.adapter import ProofSide
    from irdeconv.verify.smt_report import SecondCheck, SecondTask

LONGEST_NAME = 60  # characters of a layer's name in that of a file


def refuse(args: argparse.Namespace) -> None:
    """Raise UsageError if z3 is not installed."""
    from irdeconv.base.extras import needed

    if args.smt:
        needed("--smt", "z3", "SolverFor")


def run(
    args: argparse.Namespace, shapes: Mapping[str, Shape | None], *, onnx: bool
) -> list[SecondCheck] | None:
    """Do what the options ask for; returns an answer for each rewritten layer, None unasked."""
    from irdeconv.verify.smt_report import second_checks, written

    if not args.smt and not args.smt_write:
        return None
    tasks = _tasks_onnx(args, shapes) if onnx else _tasks(args, shapes)
    if args.smt:
        made = second_checks(tasks, 10.0 if args.smt_timeout is None else args.smt_timeout)
    else:
        made = written(tasks)
    if args.smt_write:
        _write(Path(args.smt_write), made)
    return made


def _tasks(args: argparse.Namespace, shapes: Mapping[str, Shape | None]) -> list[SecondTask]:
    from irdeconv.cli.model import given
    from irdeconv.verify.proving import both_sides

    sides = both_sides(
        given(args.file, args.weights, args.semantics),
        given(args.lowered, args.lowered_weights, args.semantics),
        shapes,
    )
    return _of_sides(*sides)


def _tasks_onnx(args: argparse.Namespace, shapes: Mapping[str, Shape | None]) -> list[SecondTask]:
    from irdeconv.cli.lower_onnx import compared
    from irdeconv.verify.adapter import side_of

    pairs = [(s, w) for _, s, w, _ in compared(args, shapes).layers if s is not None]
    return [t for s, w in pairs if w is not None for t in _of_sides(side_of(s), side_of(w))]


def _of_sides(source: ProofSide, lowered: ProofSide) -> list[SecondTask]:
    from irdeconv.verify.check import obligations
    from irdeconv.verify.smt_report import SecondTask

    found = obligations(source, lowered)
    return [SecondTask(n, ob, p is not None, p.rounding if p else 0.0) for n, ob, p in found]


def _write(folder: Path, made: Sequence[SecondCheck]) -> None:
    from irdeconv.base.opening import reason_of, unwritable
    from irdeconv.formats.atomic import together

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise unwritable(folder, e.errno, reason_of(e)) from None
    with together() as files:
        for number, one in enumerate(made):
            if one.text:
                files.write(folder / file_name(number, one.layer), one.text.encode("utf-8"))


def file_name(number: int, layer: str) -> str:
    """Return the name of a layer's file."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", layer).strip("._")[:LONGEST_NAME]
    return f"{number:02d}_{plain or 'layer'}.smt2"


def show(args: argparse.Namespace, made: Sequence[SecondCheck] | None, console: Console) -> None:
    """Print the answers, and what was written."""
    if made is None:
        return
    for one in made if args.smt else ():
        if one.answer:
            console.text(f"smt ok   {one}")
        else:
            refuted = one.answer.verdict == "refuted"
            console.text((f"smt {'FAIL' if refuted else '    '} {one}", "red" if refuted else ""))
    if args.smt:
        done = sum(map(bool, (one.answer for one in made)))
        console.text(f"smt: z3 proves {done} of {len(made)} layers")
    if args.smt_write:
        count = sum(bool(one.text) for one in made)
        console.text(f"smt: wrote {count} of {len(made)} formulas to {args.smt_write}")
        for one in () if args.smt else made:
            if not one.text:
                console.text(f"smt      {one.layer}: no formula: {one.answer.text}")
