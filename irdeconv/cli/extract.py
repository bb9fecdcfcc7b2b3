"""`extract`: cut a piece out of a model, with its weights and the inputs that flow into it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from irdeconv.base.errors import count, first_names, misused
from irdeconv.base.json_form import Record
from irdeconv.cli.checks import protect, read_by
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.inputs import gather, open_arrays, outputs_of, specialize, typed
from irdeconv.cli.lower_onnx import graph_to_edit, onnx_model
from irdeconv.cli.model import inferred, input_names, read
from irdeconv.cli.verbs import verb_record
from irdeconv.formats.arrays import packed
from irdeconv.formats.atomic import together
from irdeconv.formats.onnx_container import OnnxFile, stage_file
from irdeconv.formats.onnx_editing import keep_piece
from irdeconv.formats.xml_writer import stage_ir
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Array
from irdeconv.rewrite.standardize import standardize
from irdeconv.runtime.extract import (
    Piece,
    PieceEnd,
    cut_out,
    needed,
    node_by_node,
    record,
    recorded,
    with_specs,
)
from irdeconv.runtime.peers import onnx_outputs, outlined
from irdeconv.runtime.selection import Selection


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


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Cut, record, write, report."""
    if not (args.begin or args.end or args.add):
        raise misused("nothing to cut: name --from, --to or --add-output")
    saved = _inputs_file(args)
    if saved:
        read_too = [*read_by(verb_record("extract"), args), args.output]
        protect(saved, read_too, force=args.force, option="--save-inputs")
    model = onnx_model(args)
    # A mistake elsewhere in the model is no reason to refuse the piece.
    whole = _whole(args) if model is None else outlined(model)
    piece = cut_out(whole, args.begin, args.end, args.add)
    arrays = _flowing_in(whole, piece, args, console, model) if saved else {}
    with together() as files:
        if model is None:
            stage_ir(standardize(piece.graph), Path(args.output), files)
        else:
            added = keep_piece(model, piece.graph)
            stage_file(model, added, Path(args.output), files, force=args.force)
        if saved:
            files.write(Path(saved), packed(saved, arrays))
    for path in filter(None, (args.output, saved)):
        console.log(f"wrote {path}")
    document = _document(whole, piece, args, saved)
    return Answer(lambda: document, partial(_text, document, console))


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
    whole: Graph,
    piece: Piece,
    args: argparse.Namespace,
    console: Console,
    model: OnnxFile | None,
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


def _document(
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


def _text(d: ExtractDocument, console: Console) -> None:
    for end in d.inputs:
        console.text(f"input {end.name}: {end.spec}{_READ_TOO.get(end.why, '')}")
    for end in d.outputs:
        console.text(f"output {end.name}: {end.spec}")
    for name in d.known:
        console.text(f"constant {name}: lies outside, its value follows from shapes")
    whole, constants = count(d.layers_of_the_model, "layer"), count(d.constants, "constant")
    console.text(f"{d.file}: the piece has {d.layers} of {whole}, and {constants}")
