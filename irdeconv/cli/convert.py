"""Convert an ONNX model, a JSON dump of oneDNN Graph or an IR of version 2 to 7 into an IR.

The result (.xml and .bin) has version 11, which today's OpenVINO reads. Each deconvolution keeps
the meaning that it has in its own format, spelled in standard operations. If an operation is not
covered, all such operations are listed, the exit code is 4, and nothing is written.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from irdeconv.base.errors import count
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.verbs import Verb

if TYPE_CHECKING:
    from irdeconv.formats.importing import Imported


VERB = Verb(
    """
    FILE  an .onnx, a .json dump, an old .xml; - reads stdin @reads model
    --weights FILE  the .bin of an old IR, the one beside it by default; of a oneDNN dump an .npz by
        tensor id or name, other tensors without a producer become inputs; or random @reads weights
    --seed SEED  seed of random weights (default: %(default)s) @whole 0 @default 0
    + SHAPE
    + SEMANTICS
    -o --output FILE  write the IR here (.xml, .bin beside it) @writes model .xml @required
    + FORCE
    + FORMAT
    """,
    example="irdeconv convert ir_samples/onnx/upscaler.onnx -o upscaler.xml",
    guide="onnx",
)


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Import, write, report."""
    import irdeconv as ird
    from irdeconv.base.errors import InferenceError, misused
    from irdeconv.cli.checks import require_format
    from irdeconv.cli.model import ends, parse_shapes, protect_referred, read_stdin, write_model
    from irdeconv.formats.models import converted, is_legacy

    source = read_stdin() if args.file == "-" else args.file
    shapes = parse_shapes(args.shape)
    if "" in shapes:
        raise misused("--shape needs the name of an input", "write it as 'x[1,3,224,224]'")
    if not is_legacy(source):
        require_format(args.file, ("onnx", "json"))
    done = converted(source, args.weights, shapes=shapes, seed=args.seed, semantics=args.semantics)
    protect_referred(args, done.files)
    found = [d for d in ird.validate(done.graph) if d.severity != "note"]
    if any(d.severity == "error" for d in found):
        raise InferenceError([*done.diagnostics, *found])
    done.diagnostics += found
    write_model(done.graph, args, console)
    facts = {"file": args.file, "output": args.output}
    return Answer(
        lambda: {**facts, **done.to_dict(), **ends(done.graph)},
        lambda: _text(args.file, done, console),
    )


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
