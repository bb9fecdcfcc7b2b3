"""`validate`: check a model and report everything that is wrong with it."""

from __future__ import annotations

import argparse
from typing import Any

import irdeconv as ird
from irdeconv.base.errors import Diagnostic, UsageError, count, misused
from irdeconv.base.json_form import Record
from irdeconv.cli.checks import parse_shapes
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.diagnostics import code_of, junit, parts, sarif
from irdeconv.cli.model import STDIN, source_of
from irdeconv.ir.spec import Shape


class ValidatedFile(Record):
    """The counts of one file."""

    file: str  # its name
    errors: int  # in this file
    warnings: int  # in this file


class ValidateDocument(Record, document="validate/1"):
    """The verdict on one or more files."""

    valid: bool  # whether there is no error; with --strict, no warning either
    errors: int  # in all files
    warnings: int  # in all files
    files: list[ValidatedFile]  # one for each file
    diagnostics: list[Diagnostic]  # in the order of files and lines


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Validate all files; the exit code is 1 if any has errors."""
    if args.weights and len(args.files) > 1:
        raise misused("--weights goes with a single file", "validate one model at a time")
    shapes = parse_shapes(args.shape)
    found = {file: _diagnostics(file, shapes, args) for file in dict.fromkeys(args.files)}
    diagnostics = [d for ds in found.values() for d in ds]
    refused = code_of(diagnostics)
    code = refused if refused in (5, 6) else 1

    def text() -> None:
        if console.format == "text":
            _text(found, console, args)
        else:
            console.raw(sarif(diagnostics) if console.format == "sarif" else junit(found))

    def document() -> ValidateDocument:
        files = [ValidatedFile(file, *tally(ds)) for file, ds in found.items()]
        return ValidateDocument(good, *tally(diagnostics), files, diagnostics)

    good = valid(diagnostics, args.strict)
    return Answer(document, text, 0 if good else code)


def _diagnostics(
    file: str, shapes: dict[str, Shape | None], args: argparse.Namespace
) -> list[Diagnostic]:
    """Validate one file; UsageError if a shape does not fit the model."""
    weights: Any = False if args.no_weights else args.weights
    how = {"semantics": args.semantics, "target": args.target}
    found = ird.validate(source_of(file), weights, shapes=shapes, name=STDIN, **how)
    misfits = [d for d in found if d.code == "E310"]
    if misfits:
        raise UsageError(misfits)
    return found


def valid(diagnostics: list[Diagnostic], strict: bool) -> bool:
    """Whether there are no errors and, with `strict`, no warnings."""
    errors, warnings = tally(diagnostics)
    return not errors and not (strict and warnings)


def _text(found: dict[str, list[Diagnostic]], console: Console, args: argparse.Namespace) -> None:
    for file, diagnostics in found.items():
        for d in diagnostics:
            console.text(*parts(d, console.width))
        errors, warnings = tally(diagnostics)
        good = valid(diagnostics, args.strict)
        verdict = ("valid", "bold green") if good else ("invalid", "bold red")
        counts = f", {count(errors, 'error')}, {count(warnings, 'warning')}"
        counts += ", without weights" if args.no_weights else ""
        console.text(f"{STDIN if file == '-' else file}: ", verdict, counts)
    # On a terminal, suggest `irdeconv codes` for the first codes, errors before warnings.
    diagnostics = [d for ds in found.values() for d in ds]
    error_codes = [d.code for d in diagnostics if d.severity == "error"]
    codes = list(dict.fromkeys(error_codes or [d.code for d in diagnostics]))
    if codes and console.out.isatty():
        console.log(f"irdeconv codes {' '.join(codes[:3])} explains what this means, with examples")


def tally(diagnostics: list[Diagnostic]) -> tuple[int, int]:
    """Return the numbers of errors and warnings."""
    severities = [d.severity for d in diagnostics]
    return severities.count("error"), severities.count("warning")
