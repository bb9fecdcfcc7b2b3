"""Certificates on the command line: what `lower` and `raise` share, and the file of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from irdeconv.cli.console import Console

if TYPE_CHECKING:
    from irdeconv.graph import Graph
    from irdeconv.passes.raising import Raised
    from irdeconv.passes.records import Lowered
    from irdeconv.verify.proof.certificate import Certificate

Rewritten = TypeVar("Rewritten", bound="Lowered | Raised")


def read_certificates(path: str) -> Sequence[Certificate]:
    """Read certificates as `lower --certify` writes them; UsageError where the file holds none."""
    from irdeconv.access import unreadable
    from irdeconv.errors import misused
    from irdeconv.verify.proof.certified import Certificates

    try:
        return Certificates.from_json(Path(path).read_text("utf-8"))
    except OSError as e:
        raise unreadable(path, e) from None
    except ValueError as e:
        hint = "irdeconv lower MODEL --certify FILE writes them"
        raise misused(f"{path} holds no certificates: {e}", hint) from e


def _write_proved(
    graph: Graph,
    args: argparse.Namespace,
    console: Console,
    prove: Callable[[Graph], list[Certificate]],
) -> list[Certificate]:
    """Write what -o and --certify name, all of it or nothing; return the certificates."""
    from irdeconv.cli.model import read_file
    from irdeconv.io.atomic import together
    from irdeconv.io.xml_writer import stage_ir
    from irdeconv.passes.standardize import standardize
    from irdeconv.verify.proof.certified import Certificates

    made: list[Certificate] = []
    wrote = [args.output] if args.output else []
    with together() as files:
        if args.output:
            xml, weights = stage_ir(standardize(graph), Path(args.output), files)
        if args.certify:
            made = prove(read_file(str(xml), str(weights)) if args.output else graph)
        if args.certify and args.certify != "-":
            content = Certificates(tuple(made)).to_json()
            files.write(Path(args.certify), content.encode("utf-8"))
            wrote.append(args.certify)
    for path in wrote:
        console.log(f"wrote {path}")
    return made


def finish_rewriting(
    verb: str,
    args: argparse.Namespace,
    rewritten: Rewritten,
    console: Console,
    *,
    prove: Callable[[Graph], list[Certificate]],
    show: Callable[[Rewritten], None],
) -> bool:
    """Write what -o and --certify name, then the JSON document, or report, graph and certificates.

    `prove` makes certificates of the graph as it is read back, `show` writes the report. Returns
    whether all layers are proved.
    """
    from irdeconv.text import dump

    made = _write_proved(rewritten.graph, args, console, prove)
    if console.wants_json:
        content = {"file": args.file, "output": args.output, **rewritten.report.to_dict()}
        if args.certify:
            content["certificates"] = [c.to_dict() for c in made]
        console.json(verb, content)
    else:
        show(rewritten)
        if console.format == "ir":
            console.raw(dump(rewritten.graph, elide=0))
        for c in made:
            console.text(str(c))
    return all(c.holds_for is not None for c in made)
