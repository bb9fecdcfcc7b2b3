"""Verbs that write a part or a variant of a model: `extract`, `rename`, `simplify`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import irdeconv as ird
from irdeconv.base.errors import count, first_names, misused
from irdeconv.base.json_form import Real, Record
from irdeconv.base.tables import number, scaled, table
from irdeconv.cli.checks import protect, read_by
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.model import (
    WrittenModel,
    gather,
    graph_to_edit,
    inferred,
    input_names,
    onnx_model,
    open_arrays,
    outputs_of,
    read,
    specialize,
    typed,
    write_model,
)
from irdeconv.cli.options import RECORDS
from irdeconv.formats.arrays import packed
from irdeconv.formats.atomic import together
from irdeconv.formats.onnx_container import OnnxFile
from irdeconv.formats.onnx_editing import keep_piece, outline, rename_parts, rewritten
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.public.editing import stage_edited
from irdeconv.rewrite.channel_folding import fused_lines
from irdeconv.runtime.editing import (
    KINDS,
    Piece,
    PieceEnd,
    Renaming,
    cut_out,
    needed,
    node_by_node,
    record,
    recorded,
    rename,
    with_specs,
)
from irdeconv.runtime.peers import difference, onnx_outputs, outlined
from irdeconv.runtime.selection import Selection
from irdeconv.runtime.simplify import SimplificationReport, simplify


class PieceTensor(Record):
    """An input or output of the piece."""

    name: str  # of the input or output
    spec: str  # element type and shape
    layer: str  # the layer that makes it in the whole model
    port: int  # number of that layer's output
    why: Annotated[Literal["asked", "needed", "model"], str]  # named, read, or the model's own


class ExtractDocument(Record, document="extract/1"):
    """The piece."""

    file: str  # the model
    output: str  # the file that was written
    saved_inputs: str | None  # the file with the arrays that flow in
    inputs: list[PieceTensor]  # of the piece
    outputs: list[PieceTensor]  # of the piece
    known: tuple[str, ...]  # values that were computed beforehand
    layers: int  # of the piece, without constants
    layers_of_the_model: int  # without constants
    constants: int  # of the piece


def run_extract(args: argparse.Namespace, console: Console) -> Answer:
    """Cut, record, write, report."""
    if not (args.begin or args.end or args.add):
        raise misused("nothing to cut: name --from, --to or --add-output")
    saved = _inputs_file(args)
    if saved:
        read_too = [*read_by(RECORDS["extract"], args), args.output]
        protect(saved, read_too, force=args.force, option="--save-inputs")
    model = onnx_model(args)
    # A mistake elsewhere in the model is no reason to refuse the piece.
    whole = _whole(args) if model is None else outlined(model)
    piece = cut_out(whole, args.begin, args.end, args.add)
    arrays = _flowing_in(whole, piece, args, console, model) if saved else {}
    added = keep_piece(model, piece.graph) if model else ()
    with together() as files:
        stage_edited(model or piece.graph, Path(args.output), files, added, force=args.force)
        if saved:
            files.write(Path(saved), packed(saved, arrays))
    for path in filter(None, (args.output, saved)):
        console.log(f"wrote {path}")
    document = _piece_document(whole, piece, args, saved)
    return Answer(lambda: document, partial(_piece_text, document, console))


def _whole(args: argparse.Namespace) -> Graph:
    graph = read(args)
    return inferred(graph, args.shape) if args.shape else with_specs(graph)


def _inputs_file(args: argparse.Namespace) -> str | None:
    """Return the file for the piece's inputs, None if they are not saved."""
    if args.save_inputs is None and not args.inputs_from and not args.inputs:
        return None
    beside = f"{Path(args.output).with_suffix('')}_inputs.npz"
    return beside if args.save_inputs in (None, "-") else str(args.save_inputs)


def _flowing_in(
    whole: Graph, piece: Piece, args: argparse.Namespace, console: Console, model: OnnxFile | None
) -> dict[str, Array]:
    """Return the data that flow into the piece, by its input names."""
    items = args.inputs
    if args.inputs_from:
        specs = {e.name: whole.spec(e.source) for e in piece.inputs}
        with open_arrays(args.inputs_from) as arrays:
            found = recorded(whole, piece, arrays)
            if found is not None:
                console.log(f"what flows into the piece is taken from {args.inputs_from}")
                return {name: typed(array, specs[name]) for name, array in found.items()}
            _require_inputs(whole, piece, arrays, args.inputs_from)
        items = [args.inputs_from]
    inputs = gather(whole, items, args.seed, console, fill=args.fill)
    if args.run_in == "onnxruntime":
        names, file = [e.name for e in piece.inputs], model or onnx_model(args, needed=True)
        assert file is not None
        return dict(zip(names, onnx_outputs(file, inputs, names), strict=True))
    if model is not None:
        whole = graph_to_edit(args, model)
        piece = _imported(whole, piece)
    execute = outputs_of if args.run_in == "openvino" else node_by_node
    return record(specialize(whole, inputs), piece, inputs, execute)


def _imported(whole: Graph, piece: Piece) -> Piece:
    """Return a piece of an ONNX model whose inputs are tensors of the imported graph."""
    texts = [f"tensor:{e.name}" for e in piece.inputs]
    places = Selection(whole).places(texts, "--run-in irdeconv")
    pairs = zip(piece.inputs, places, strict=True)
    return replace(piece, inputs=tuple(replace(e, source=Value(p.node, p.port)) for e, p in pairs))


def _require_inputs(whole: Graph, piece: Piece, arrays: Mapping[str, Array], path: str) -> None:
    """Raise UsageError for arrays that are neither the piece's inputs nor the model's.

    Arrays none of which has a known name are the model's inputs in order.
    """
    known = input_names(whole)
    have = {known[name] for name in arrays if name in known}
    lacking = [name for name in needed(whole, piece) if name not in have]
    if not lacking or (not have and len(arrays) == len(whole.inputs)):
        return
    flows = f"all that flows into the piece ({first_names([e.name for e in piece.inputs])})"
    reads = f"all that the model reads for it ({first_names(lacking)} is missing)"
    hint = "run --dump all -o FILE.npz saves all tensors; -i NAME=VALUE gives the model's inputs"
    raise misused(f"{path} has neither {flows} nor {reads}", hint)


def _piece_document(
    whole: Graph, piece: Piece, args: argparse.Namespace, saved: str | None
) -> ExtractDocument:
    def tensor(end: PieceEnd) -> PieceTensor:
        spec, layer = str(whole.spec(end.source).without_value()), whole.node(end.source.node).name
        return PieceTensor(end.name, spec, layer, end.source.port, end.why)

    return ExtractDocument(
        args.file,
        args.output,
        saved,
        inputs=[*map(tensor, piece.inputs)],
        outputs=[*map(tensor, piece.outputs)],
        known=piece.known,
        layers=_layers(piece.graph),
        layers_of_the_model=_layers(whole),
        constants=sum(1 for _ in piece.graph.nodes("Const")),
    )


def _layers(graph: Graph) -> int:
    return sum(n.type not in ("Const", "Parameter", "Result") for n in graph.nodes())


_READ_TOO = {
    "needed": " (not asked for: the piece reads it, too)",
    "model": " (an input of the model)",
}


def _piece_text(d: ExtractDocument, console: Console) -> None:
    for end in d.inputs:
        console.text(f"input {end.name}: {end.spec}{_READ_TOO.get(end.why, '')}")
    for end in d.outputs:
        console.text(f"output {end.name}: {end.spec}")
    for name in d.known:
        console.text(f"constant {name}: lies outside, its value follows from shapes")
    whole, constants = count(d.layers_of_the_model, "layer"), count(d.constants, "constant")
    console.text(f"{d.file}: the piece has {d.layers} of {whole}, and {constants}")


class RenameDocument(WrittenModel, document="rename/1"):
    """New names."""

    renamed: tuple[Renaming, ...]  # every name that changed


def run_rename(args: argparse.Namespace, console: Console) -> Answer:
    """Rename, write, report."""
    if not (args.names or args.patterns):
        raise misused("nothing to rename: give OLD=NEW or --pattern s/OLD/NEW/")
    model = onnx_model(args)
    graph = inferred(read(args), ()) if model is None else outline(model)
    wanted = [kind for kind in KINDS if args.only in (None, f"{kind}s")]
    done = rename(graph, _pairs(graph, args.names), args.patterns, wanted)
    changes = done.changes
    if model is not None:
        rename_parts(model, *done.new_names)
    write_model(model or done.graph, args, console)

    def text() -> None:
        kinds: dict[tuple[str, str], list[str]] = {}
        for c in changes:
            kinds.setdefault((c.old, c.new), []).append(c.kind)
        for (old, new), both in kinds.items():
            console.text(f"{' and '.join(both)} {old} -> {new}")
        console.text(f"{args.file}: {count(len(kinds), 'name')} changed")

    return Answer(lambda: RenameDocument(args.file, args.output, changes), text)


def _pairs(graph: Graph, texts: list[str]) -> dict[str, str]:
    """Split OLD=NEW; names may contain "=": the longest old name that the model has wins."""
    known = {n.name for n in graph.nodes()}
    known |= {t for n in graph.nodes() for names in n.tensor_names for t in names}
    out: dict[str, str] = {}
    for text in texts:
        cuts = [i for i, c in enumerate(text) if c == "="]
        if not cuts:
            kind, *new = re.split(":|->|=>", text, maxsplit=1)
            new = [""] if kind in KINDS else new or [t for t in texts[-1:] if "=" not in t]
            pair = f"{kind}={new[0]}" if new != [text] and any(new) else f"{text}=new"
            raise misused(f'"{text}" is not of the form OLD=NEW', f"write {pair}")
        known_cuts = [i for i in cuts if {text[:i], text[:i].partition(":")[2]} & known]
        at = (known_cuts or cuts[:1])[-1]
        if text[:at] in out:
            raise misused(f'"{text[:at]}" is renamed twice', "leave one out")
        out[text[:at]] = text[at + 1 :]
    return out


# Of an output's largest value: the effect that other fusions may have in OpenVINO.
_FUSED_OTHERWISE = 1e-4


class OutputCheck(Record, keys="with=system ..."):
    """The outputs of both models."""

    system: str  # irdeconv, openvino or onnxruntime
    passed: bool  # whether they agree
    same_bits: bool  # whether they are the same bits
    difference: Real  # the largest, relative to the largest value of the output


class SimplifyDocument(WrittenModel, document="simplify/1", keys="file output check *report"):
    """The layers before and after."""

    check: OutputCheck | None  # of the outputs, with --check
    report: SimplificationReport


def run_simplify(args: argparse.Namespace, console: Console) -> Answer:
    """Simplify, check, write, report."""
    needed = args.check == "onnxruntime"
    model = onnx_model(args, needed=needed)
    original = deepcopy(model) if needed else None
    graph, added = graph_to_edit(args, model), []
    options = {"decompress": args.decompress, "fuse": args.fuse}
    simple, report = simplify(graph, max_growth=args.max_growth, **options)
    if model is not None:
        size = len(model.proto.graph.node)
        added = rewritten(model, graph, simple, args.max_growth, decompress=args.decompress)
        console.log(f"{count(size, 'node')} became {len(model.proto.graph.node)}")
    checked = _check(graph, simple, args, console, (original, model)) if args.check else None
    passed = checked is None or checked.passed
    written = args.output if passed else None
    if written:
        stays = model if model is not None and written.endswith(".onnx") else None
        write_model(stays or simple, args, console, added)

    def text() -> None:
        _simplified_text(args.file, report, console)
        for line in fused_lines(report.fused) if args.fuse else ():
            console.text(line)
        if checked is not None:
            console.text(_verdict(checked))

    document = partial(SimplifyDocument, args.file, written, checked, report)
    return Answer(document, text, 0 if passed else 1)


def _check(
    before: Graph,
    after: Graph,
    args: argparse.Namespace,
    console: Console,
    models: Sequence[OnnxFile | None],
) -> OutputCheck:
    """Run both on the same inputs; return the outcome. `models` are those of ONNX Runtime."""
    inputs = gather(before, args.inputs, args.seed, console, fill=args.fill)
    graphs = [specialize(graph, inputs) for graph in (before, after)]
    if args.check == "openvino":
        own, other = (outputs_of(graph, inputs) for graph in graphs)
    elif args.check == "onnxruntime":
        own, other = (onnx_outputs(model, inputs) for model in models if model is not None)
    else:
        # Not `run`, which chooses kernels by the size of the graph.
        plans = (ird.compile(graph, None, fuse=False) for graph in graphs)
        own, other = (list(plan.run(inputs).values()) for plan in plans)
    gap = difference(other, own)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(own, other, strict=True))
    passed = same or (args.check != "irdeconv" and gap <= _FUSED_OTHERWISE)
    if args.fuse and not passed:  # weights are rounded: each layer has its bound
        passed = args.check == "irdeconv" and ird.compare(graphs[0], graphs[1], inputs).passed
    return OutputCheck(args.check, passed, same, gap)


def _verdict(checked: OutputCheck) -> str:
    names = {"openvino": "OpenVINO", "onnxruntime": "ONNX Runtime"}
    system = names.get(checked.system, checked.system)
    if checked.same_bits:
        return f"{system} computes the same bits before and after"
    gap = f"{checked.difference:.2g} of an output's largest value"
    if checked.passed:
        return f"{system} computes the same before and after, within {gap}"
    return f"{system} computes something else afterwards: off by {gap}; nothing is written"


def _simplified_text(file: str, report: SimplificationReport, console: Console) -> None:
    before, after = report.before, report.after
    changed = {kind: n for kind, n in report.types.items() if n.before != n.after}
    rows = [(kind, number(n.before), number(n.after)) for kind, n in changed.items()]
    if rows:
        rows.append(("all layers", number(sum(before.values())), number(sum(after.values()))))
        head = ("type", "before", "after")
        console.text(table(head, rows, ("before", "after"), width=console.width))
    steps = ", ".join(f"{n} {step}" for step, n in report.steps.items() if n)
    kept, had = sum(after.values()), count(sum(before.values()), "layer")
    sizes = f"constants {scaled(report.bytes_before, 'B')} -> {scaled(report.bytes_after, 'B')}"
    if steps:
        console.text(f"{file}: {had} became {kept} ({steps}); {sizes}")
    else:
        console.text(f"{file}: {had}, nothing to take away")
