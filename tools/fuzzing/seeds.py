"""Small files to start from, by format: the samples and what the tests' builders make."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from support.onednn_dumps import content, op, tensor

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "ir_samples"
LARGEST = 12_000  # bytes of an .xml: larger ones take too long for each mutant


@dataclass(frozen=True)
class Seed:
    """Files by name; `main` is the one that is changed."""

    name: str
    main: str
    files: dict[str, bytes] = field(hash=False)


@cache
def seeds(kind: str) -> tuple[Seed, ...]:
    """Return all seeds of a format."""
    return tuple(_KINDS[kind]())


def _ir(name: str, xml: bytes, weights: bytes) -> Seed:
    return Seed(name, "m.xml", {"m.xml": xml, "m.bin": weights})


def _bytes(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def _written(name: str, graph: Graph) -> Seed:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.xml"
        ird.write(ird.infer(graph), path)
        return _ir(name, *_bytes(path))


@cache
def irs() -> tuple[Seed, ...]:
    """Return IRs: samples, bodies, one layer of every operation, old versions."""
    found = [*_samples(), *_bodies(), *_operations(), *_legacy()]
    return tuple(s for s in found if len(s.files["m.xml"]) <= LARGEST)


def _samples() -> Iterator[Seed]:
    for path in sorted(SAMPLES.glob("*/*.xml")):
        weights = path.with_suffix(".bin")
        data = weights.read_bytes() if weights.exists() else b""
        if len(data) < 1 << 16:
            yield _ir(f"{path.parent.name}/{path.stem}", path.read_bytes(), data)


def _bodies() -> Iterator[Seed]:
    from support import body_models

    for name, model in sorted(body_models.MODELS.items()):
        if name in ("parts", "open", "while", "growing, fed", "nested", "if shapes differ"):
            yield _written(f"body/{name}", ird.parse(model.text))
    yield _written("state", ird.parse(body_models.state()))


def _operations() -> Iterator[Seed]:
    """One layer of every operation and version, with lists and numbers as constants."""
    from op_cases import all_cases

    rows: dict[str, Any] = {}
    for row in all_cases().values():
        size = sum(t.values.size for t in row.inputs)
        if size < 3000 and (row.op not in rows or len(row.inputs) > len(rows[row.op].inputs)):
            rows[row.op] = row
    for name, row in sorted(rows.items()):
        try:
            yield _written(f"op/{name}", _single(row))
        except ird.IrdeconvError:  # a type that no IR can hold
            continue


def _single(row: Any) -> Graph:
    from support.layers import constant, parameter, result

    graph, inputs = Graph(), []
    for i, data in enumerate(row.inputs):
        short = data.values.ndim <= 1 and not data.dtype.is_real
        if i and (short or i in row.fixed):
            inputs.append(constant(graph, data.values, f"c{i}", data.dtype.name))
        else:
            value = parameter(graph, data.values.shape, np.float32, f"x{i}")
            op = graph.node(value.node).op
            graph.replace_op(value.node, type(op)(shape=op.shape, element_type=data.dtype))
            inputs.append(value)
    op, _ = row.build()
    node = graph.add(op, inputs, name="layer")
    for port in range(len(row.outputs)):
        result(graph, Value(node.id, port), f"y{port}")
    return graph


def _legacy() -> Iterator[Seed]:
    from support import legacy

    kinds: set[str] = set()
    for case in legacy.CASES:
        if case.kind not in kinds:
            kinds.add(case.kind)
            yield _ir(f"old/{case.name}", *case.files())


def _alone(name: str, main: str, content: bytes) -> Seed:
    return Seed(name, main, {main: content})


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _beside(name: str, main: str, content: bytes) -> Seed:
    """Return a file beside an IR with inputs of several types, which saved arrays are fed to."""
    model = _ir("arrays", *_bytes(SAMPLES / "openvino" / "group_deconv.xml"))
    return Seed(name, main, {**model.files, main: content})


def _arrays() -> Iterator[Seed]:
    shape = (2, 6, 4, 5)
    for dtype in ("float32", "float16", "float64", "int8", "uint8", "bool"):
        data = np.arange(240).reshape(shape).astype(dtype)
        yield _beside(f"npy/{dtype}", "x.npy", _npy(data))
    turned = np.asfortranarray(np.ones(shape, np.float32))
    yield _beside("npy/fortran", "x.npy", _npy(turned))
    yield _beside("npy/scalar", "x.npy", _npy(np.float32(1)))


def _archives() -> Iterator[Seed]:
    from fuzzing.formats import archive

    x = _npy(np.ones((2, 6, 4, 5), np.float32))
    y = _npy(np.ones((2, 4, 9, 13), np.float32))
    for name, members, method in (
        ("one", [("x.npy", x)], 0),
        ("packed", [("x.npy", x)], 8),
        ("two", [("x.npy", x), ("deconv.npy", y)], 8),
        ("other names", [("a.npy", x), ("b.npy", y)], 0),
        ("empty", [], 0),
    ):
        yield _beside(f"npz/{name}", "x.npz", archive(members, method))
    bomb = archive([("x.npy", _npy(np.zeros(30_000_000, np.uint8)))])
    yield _beside("npz/bomb", "x.npz", bomb)


def _profiles() -> Iterator[Seed]:
    from irdeconv.rewrite import targets as profile

    for path in sorted((Path(profile.__file__).parent / "profiles").glob("*.toml")):
        yield _beside(f"toml/{path.stem}", "t.toml", path.read_bytes())
    limits = b'max_rank = 3\n[operations]\nPad = ["amount >= 0"]\n[cost]\nmac = 1e-3\n'
    yield _beside("toml/limits", "t.toml", limits)


def _certificates() -> Iterator[Seed]:
    for name in ("group_deconv", "deconv_3x3_to_5x5", "dynamic"):
        for form in ("zero-insertion", "phases"):
            sample = SAMPLES / "openvino" / f"{name}.xml"
            with TemporaryDirectory() as folder:
                low, proofs = Path(folder) / "low.xml", Path(folder) / "c.json"
                wanted = ["--form", form, "-o", low, "--certify", proofs, "-q"]
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    code = main(["lower", str(sample), *map(str, wanted)])
                assert code in (0, 7), code
                names = "m.xml", "m.bin", "low.xml", "low.bin", "c.json"
                contents = *_bytes(sample), *_bytes(low), proofs.read_bytes()
                files = dict(zip(names, contents, strict=True))
            yield Seed(f"certificate/{name}/{form}", "c.json", files)


def _lowered() -> Iterator[Seed]:
    for seed in seeds("certificate"):
        yield Seed(seed.name.replace("certificate", "lowered"), "low.xml", seed.files)


def _texts() -> Iterator[Seed]:
    from support import body_models

    for name in ("parts of two", "while", "nested", "if shapes differ"):
        text = body_models.MODELS[name].text
        yield _alone(f"text/{name}", "m.ird", text.encode())
    for seed in irs()[::9]:
        if seed.name.startswith("broken/"):
            continue
        text = ird.dump(ird.read(seed.files["m.xml"], seed.files["m.bin"]))
        if len(text) < 6000:
            yield _alone(f"text/{seed.name}", "m.ird", text.encode())


LARGEST_ONNX = 6_000  # bytes of a model
OFTEN = {"ConvTranspose": 8, "Conv": 4}  # so many tests of an operation; 1 of others


def models() -> Iterator[Seed]:
    """Yield models with constants for all inputs but the first, then a chain."""
    from run_onnx_backend import frozen, node_tests

    found: dict[str, list[tuple[int, str, bytes]]] = {}
    for test in node_tests():
        try:
            data = frozen(test).SerializeToString()
        except (NotImplementedError, ValueError):  # a sequence, or a type that NumPy has not
            data = test.model.SerializeToString()
        kinds = {n.op_type for n in test.model.graph.node}
        if len(data) < LARGEST_ONNX and len(kinds) == 1:
            said = sum(len(n.attribute) for n in test.model.graph.node)
            found.setdefault(min(kinds), []).append((-said, test.name, data))
    for kind, tests in sorted(found.items()):
        for _, name, data in sorted(tests)[: OFTEN.get(kind, 1)]:
            yield _alone(f"onnx/{name}", "m.onnx", data)
    yield from _chain()


def _chain() -> Iterator[Seed]:
    """Yield three nodes with open sizes, and with a filter in another file."""
    from onnx import helper

    from support.onnx_models import info, model

    w = np.ones((4, 2, 3, 3), np.float32)
    nodes: list[Any] = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "act"),
        helper.make_node("Identity", ["b"], ["y"], "last"),
    ]
    chain = model(nodes, [info("x", ("n", 4, "h", 6))], [info("y", [None] * 4)], {"w": w})
    yield _alone("onnx/chain", "m.onnx", chain.SerializeToString())
    tensor = chain.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(w.nbytes))):
        tensor.external_data.add(key=key, value=value)
    yield _alone("onnx/external", "m.onnx", chain.SerializeToString())


def _onednn_op(
    kind: str, shapes: list[tuple[int, ...]], first: int, **attributes: Any
) -> dict[str, Any]:
    """One operation; the last shape is its output's."""
    ends = [tensor(first + i, s) for i, s in enumerate(shapes)]
    return op(kind, ends[:-1], ends[-1:], **attributes)


_LISTS = {"strides": [2, 2], "pads_begin": [1, 0], "pads_end": [1, 1], "dilations": [1, 1]}
_POOL = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
_X = (2, 3, 4, 6)
_ROWS: tuple[tuple[str, list[tuple[int, ...]], dict[str, Any]], ...] = (
    ("ConvTranspose", [(1, 4, 4, 4), (4, 2, 3, 3), (1, 2, 7, 8)],
     {**_LISTS, "data_format": "NCX", "weights_format": "IOX", "groups": 1}),
    ("ConvTranspose", [(1, 4, 4, 4), (3, 3, 2, 2), (1, 7, 8, 4)],
     {**_LISTS, "data_format": "NXC", "weights_format": "XOI", "groups": 2,
      "output_padding": [0, 0], "auto_pad": "None"}),
    ("Convolution", [(2, 4, 6, 5), (6, 4, 3, 2), (6,), (2, 6, 3, 4)],
     {**_LISTS, "data_format": "NCX", "weights_format": "OIX", "groups": 1}),
    ("ReLU", [_X, _X], {}),
    ("Clamp", [_X, _X], {"min": -1.0, "max": 2.0}),
    ("SoftMax", [_X, _X], {"axis": -1}),
    ("StaticReshape", [_X, (2, 72)], {"shape": [0, -1], "special_zero": True}),
    ("StaticTranspose", [_X, (2, 6, 3, 4)], {"order": [0, -1, 1, 2]}),
    ("ReduceSum", [_X, (2, 1, 4, 1)], {"axes": [1, -1], "keep_dims": True}),
    ("MaxPool", [_X, (2, 3, 2, 3)], {**_POOL, "data_format": "NCX"}),
    ("AvgPool", [_X, (2, 3, 2, 3)], {**_POOL, "data_format": "NCX", "exclude_pad": True}),
    ("Add", [_X, (4, 1), _X], {"auto_broadcast": "numpy"}),
    ("BiasAdd", [_X, (3,), _X], {"data_format": "NCX"}),
    ("Concat", [_X, (2, 1, 4, 6), (2, 4, 4, 6)], {"axis": 1}),
    ("MatMul", [_X, (5, 6), (2, 3, 4, 5)], {"transpose_b": True}),
)  # fmt: skip


def dumps() -> Iterator[Seed]:
    """Yield one dump for each operation, and a chain of three."""
    for i, (kind, shapes, attributes) in enumerate(_ROWS):
        dump = content(_onednn_op(kind, shapes, 0, **attributes))
        yield _alone(f"onednn/{i}-{kind}", "m.json", json.dumps(dump).encode())
    up = _onednn_op(*_ROWS[0][:2], 0, **_ROWS[0][2])
    bias = _onednn_op("BiasAdd", [(1, 2, 7, 8), (2,), (1, 2, 7, 8)], 2, data_format="NCX")
    last = _onednn_op("ReLU", [(1, 2, 7, 8), (1, 2, 7, 8)], 4)
    bias["inputs"][1]["id"], bias["outputs"][0]["id"] = 9, 4
    chain = content(up, bias, last, version="2.7.0")
    yield _alone("onednn/chain", "m.json", json.dumps(chain).encode())


_KINDS: dict[str, Any] = {
    "ir": irs,
    "bin": irs,
    "onnx": models,
    "onednn": dumps,
    "npy": _arrays,
    "npz": _archives,
    "toml": _profiles,
    "certificate": _certificates,
    "lowered": _lowered,
    "text": _texts,
}
FORMATS = tuple(_KINDS)
