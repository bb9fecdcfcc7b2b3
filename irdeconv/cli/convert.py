"""Convert an ONNX model, a JSON dump of oneDNN Graph or an IR of version 2 to 7 into an IR.

The result (.xml and .bin) has version 11, which today's OpenVINO reads. Each deconvolution keeps
the meaning that it has in its own format, spelled in standard operations. If an operation is not
covered, all such operations are listed, the exit code is 4, and nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from irdeconv.base.errors import count
from irdeconv.cli.console import Console
from irdeconv.cli.options import (
    OptionParser,
    add_format,
    add_output,
    add_seed,
    add_semantics,
    add_shapes,
)

if TYPE_CHECKING:
    from irdeconv.formats.importing import Imported


def configure(parser: OptionParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "file", metavar="FILE", help="an .onnx, a .json dump, an old .xml; - reads stdin"
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="the .bin of an old IR, the one beside it by default; of a oneDNN dump an .npz by "
        "tensor id or name, other tensors without a producer become inputs; or random",
    )
    add_seed(parser, "random weights")
    add_shapes(parser)
    add_semantics(parser)
    add_output(parser, "write the IR here (.xml, .bin beside it)", ".xml", required=True)
    add_format(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Import, write, report."""
    import irdeconv as ird
    from irdeconv.base.errors import InferenceError, misused
    from irdeconv.cli.checks import require_format
    from irdeconv.cli.model import ends, parse_shapes, read_stdin
    from irdeconv.formats.models import converted, is_legacy

    weights = None if args.weights == "random" else args.weights
    _protect(args, (args.file, weights))
    source = read_stdin() if args.file == "-" else args.file
    shapes = parse_shapes(args.shape)
    if "" in shapes:
        raise misused("--shape needs the name of an input", "write it as 'x[1,3,224,224]'")
    if not is_legacy(source):
        require_format(args.file, ("onnx", "json"))
    done = converted(source, args.weights, shapes=shapes, seed=args.seed, semantics=args.semantics)
    _protect(args, done.files)
    found = [d for d in ird.validate(done.graph) if d.severity != "note"]
    if any(d.severity == "error" for d in found):
        raise InferenceError([*done.diagnostics, *found])
    done.diagnostics += found
    ird.write(done.graph, args.output)
    console.log(f"wrote {args.output}")
    if console.wants_json:
        content = {"file": args.file, "output": args.output, **done.to_dict(), **ends(done.graph)}
        console.json("convert", content)
    else:
        _text(args.file, done, console)
    return 0


def _protect(args: argparse.Namespace, sources: Iterable[str | Path | None]) -> None:
    """Refuse to overwrite a file that is read; a .bin beside an .onnx is not one of them."""
    from irdeconv.base.errors import misused
    from irdeconv.cli.model import protect, written

    protect(args.output, (), force=args.force, model=True)
    targets = written(args.output)
    for source in sources:
        if source and str(source) != "-" and not args.force and Path(source).resolve() in targets:
            raise misused(f"-o {args.output} would overwrite {source}", "--force allows it")


def _text(file: str, done: Imported, console: Console) -> None:
    from irdeconv.base.tables import table
    from irdeconv.cli.diagnostics import print_diagnostics
    from irdeconv.cli.model import print_ends
    from irdeconv.rewrite.infer_specs import layer_count

    print_diagnostics(console, done.diagnostics)
    rows = [(kind, str(number)) for kind, number in sorted(done.kinds.items())]
    console.text(table(("node type", "count"), rows, ("count",), width=console.width))
    print_ends(done.graph, console)
    nodes = count(sum(done.kinds.values()), "node")
    console.text(f"{file}: {done.format}: {nodes} became {layer_count(done.graph)}")
