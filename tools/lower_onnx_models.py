"""Lower ONNX models in every form, prove the results, and run them beside the originals.

    python tools/lower_onnx_models.py NET.onnx ...            all forms and auto
    python tools/lower_onnx_models.py NET.onnx --form auto --dim height=64

Each rewritten layer runs in ONNX Runtime by itself, as it was and as it is, on what flows into it
in the original network. What both may be apart follows from the sums: n products of a filter's and
the data's elements, each rounded, give at most 2 gamma(n + 2) |W| |x| (n + 2: bias and first term).
Columns: nodes of the model; deconvolutions found; how many of these are left; how many are proved;
the worst layer's difference as a part of its bound; the outputs' largest difference, relative to
the largest value (0.001 where all are smaller). Exit code 1 where a layer is left, is not proved or
is beyond its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import checkout  # noqa: F401
import numpy as np
import onnx
import onnxruntime as ort

from irdeconv.base.tables import table
from irdeconv.formats.onnx_container import OnnxFile, load_file, scopes
from irdeconv.formats.onnx_lowering import lower_onnx
from irdeconv.formats.onnx_types import infer_types, inputs_of, is_deconvolution, piece
from irdeconv.verify.onnx_check import OnnxProof, certify_models, compare_models

FORMS = ("zero-insertion", "phases", "stacked", "gemm", "auto")
UNITS = {np.dtype(np.float16): 2.0**-11, np.dtype(np.float32): 2.0**-24}
HEAD = ("network", "nodes", "found", "form", "left", "proved", "bound", "outputs")


@dataclass(frozen=True)
class Outcome:
    """What became of one network in one form; `layers` are parts of bounds, `outputs` relative."""

    name: str
    nodes: int
    found: int
    form: str
    left: int
    proved: int
    layers: float
    outputs: float

    @property
    def good(self) -> bool:
        """Whether nothing is left, all is proved and every layer within its bound."""
        return not self.left and self.proved == self.found and self.layers <= 1

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        numbers = (f"{self.layers:.3f}", f"{self.outputs:.1e}")
        counts = (str(n) for n in (self.left, self.proved))
        return (self.name, str(self.nodes), str(self.found), self.form, *counts, *numbers)


def session(model: Any) -> Any:
    """Open a model in ONNX Runtime, on one thread; bytes, a file's name or a ModelProto."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not isinstance(model, str | bytes):
        model = model.SerializeToString()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def feeds(opened: Any, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Return random inputs; open dimensions are 1 for the batch, else what `sizes` says, or 32."""
    random = np.random.default_rng(seed)
    made = {}
    for item in opened.get_inputs():
        shape = [
            d if isinstance(d, int) and d > 0 else sizes.get(str(d), 32 if axis else 1)
            for axis, d in enumerate(item.shape)
        ]
        if "float" in item.type or "double" in item.type:
            kinds = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
            values = random.standard_normal(shape)
            made[item.name] = values.astype(kinds.get(item.type, np.float32))
        else:
            made[item.name] = np.full(shape, 2, np.bool_ if "bool" in item.type else np.int64)
    return made


def observed(path: Path, inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what deconvolutions of the original's own graph read, by name, and its outputs."""
    model = onnx.load(path)
    names = {
        i
        for n in model.graph.node
        if is_deconvolution(n)
        for i in n.input
        if i and i not in {o.name for o in model.graph.output}
    }
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    shown = sorted(names - set(constants) - {i.name for i in model.graph.input})
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in shown)
    file = folder / "observed.onnx"
    onnx.save(model, file, save_as_external_data=True, location="observed.data")
    opened = session(str(file))
    names_out = [o.name for o in opened.get_outputs()]
    return {**constants, **inputs, **dict(zip(names_out, opened.run(None, inputs), strict=True))}


def worst_layer(
    original: OnnxFile, lowered: OnnxFile, proof: OnnxProof, values: Mapping[str, Any]
) -> float:
    """Return the largest difference of a layer of the model's own graph as a part of its bound."""
    types = infer_types(original.proto, list(scopes(original.proto)))
    worst = 0.0
    for region, *_ in proof.layers:
        node, outputs = region.node, [region.node.output[0]]
        if region.scope.parent is not None or not all(i in values for i in node.input if i):
            continue
        known = inputs_of(original, region.scope, node, types)
        before = piece(original, region.scope, [node], outputs, known)
        after = piece(lowered, region.other, region.nodes, outputs, known)
        given = {name: values[name] for name in known}
        results = [session(m).run(None, given)[0] for m in (before, after)]
        bound = rounding_bound(before, node, given, values)
        apart = np.abs(results[0].astype(np.float64) - results[1].astype(np.float64))
        worst = max(worst, float(np.max(apart / np.maximum(bound, 1e-300), initial=0.0)))
    return worst


def rounding_bound(
    before: Any, node: Any, given: Mapping[str, Any], values: Mapping[str, Any]
) -> Any:
    """Return 2 gamma(n + 2) |W| |x| for each element of a layer's output."""
    positive = type(before)()
    positive.CopyFrom(before)
    constants = [a.t for n in positive.graph.node for a in n.attribute if a.HasField("t")]
    for tensor in (*positive.graph.initializer, *constants):
        array = np.abs(onnx.numpy_helper.to_array(tensor))
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    sums = session(positive).run(None, {name: np.abs(v) for name, v in given.items()})[0]
    data, filter = (values.get(i) for i in node.input[:2])
    assert data is not None
    assert filter is not None
    terms = filter.size // max(filter.shape[1], 1) + 2
    unit = UNITS.get(data.dtype, 2.0**-53)
    return 2 * terms * unit / (1 - terms * unit) * sums.astype(np.float64)


def try_form(
    path: Path, form: str, values: Mapping[str, Any], inputs: Mapping[str, Any], folder: Path
) -> Outcome:
    """Lower a network in one form, prove it, run it."""
    target = folder / f"{form}.onnx"
    low = lower_onnx(path, target, form)
    original, lowered = load_file(path), load_file(target)
    proof = compare_models(original, lowered)
    proved = [c for c in certify_models(proof) if c.holds_for is not None]
    if proof.pairs.problems:
        print(*proof.pairs.problems, sep="\n", file=sys.stderr)
    opened = session(str(target))
    found = dict(zip((o.name for o in opened.get_outputs()), opened.run(None, inputs), strict=True))
    every = [n for s in scopes(lowered.proto) for n in s.body.node]
    return Outcome(
        name=path.stem,
        nodes=len(original.proto.graph.node),
        found=len(low.report),
        form=form,
        left=sum(n.op_type == "ConvTranspose" for n in every) + len(proof.pairs.problems),
        proved=len(proved),
        layers=worst_layer(original, lowered, proof, values),
        outputs=max(relative(values[name], value) for name, value in found.items()),
    )


def relative(a: Any, b: Any) -> float:
    """Return the largest difference of two arrays, relative to the largest value or 0.001."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return float("inf")
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(a), initial=0.0), 1e-3))


def try_network(path: Path, forms: Sequence[str], sizes: Mapping[str, int]) -> list[Outcome]:
    """Lower and run a network in every form."""
    with TemporaryDirectory(prefix="irdeconv-") as name:
        folder = Path(name)
        inputs = feeds(session(str(path)), sizes)
        values = observed(path, inputs, folder)
        return [try_form(path, form, values, inputs, folder) for form in forms]


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    return name, int(number)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.onnx")
    parser.add_argument("--form", choices=FORMS, action="append", help="only this one")
    parser.add_argument("--dim", action="append", type=_size, default=[], metavar="NAME=SIZE")
    args = parser.parse_args(argv)
    outcomes: list[Outcome] = []
    failed = False
    for path in args.files:
        try:
            outcomes += try_network(path, args.form or FORMS, dict(args.dim))
        except Exception as e:
            print(f"{path}: {type(e).__name__}: {e}", file=sys.stderr)
            failed = True
    print(table(HEAD, [o.row() for o in outcomes], HEAD[1:3] + HEAD[4:]))
    return 0 if all(o.good for o in outcomes) and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
