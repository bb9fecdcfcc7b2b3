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
    for i, tensor in enumerate(row.inputs):
        short = tensor.values.ndim <= 1 and not tensor.dtype.is_real
        if i and (short or i in row.fixed):
            inputs.append(constant(graph, tensor.values, f"c{i}", tensor.dtype.name))
        else:
            value = parameter(graph, tensor.values.shape, np.float32, f"x{i}")
            op = graph.node(value.node).op
            graph.replace_op(value.node, type(op)(shape=op.shape, element_type=tensor.dtype))
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


def _onnx() -> Iterator[Seed]:
    from fuzzing.seeds_onnx import models

    for name, data in models():
        yield Seed(name, "m.onnx", {"m.onnx": data})


def _onednn() -> Iterator[Seed]:
    from fuzzing.seeds_onednn import dumps

    for name, content in dumps():
        yield Seed(name, "m.json", {"m.json": json.dumps(content).encode()})


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def model_of_arrays() -> Seed:
    """Return an IR with inputs of several types, which saved arrays are fed to."""
    return _ir("arrays", *_bytes(SAMPLES / "openvino" / "group_deconv.xml"))


def _arrays() -> Iterator[Seed]:
    base = model_of_arrays().files
    shape = (2, 6, 4, 5)
    for dtype in ("float32", "float16", "float64", "int8", "uint8", "bool"):
        data = np.arange(240).reshape(shape).astype(dtype)
        yield Seed(f"npy/{dtype}", "x.npy", {**base, "x.npy": _npy(data)})
    turned = np.asfortranarray(np.ones(shape, np.float32))
    yield Seed("npy/fortran", "x.npy", {**base, "x.npy": _npy(turned)})
    yield Seed("npy/scalar", "x.npy", {**base, "x.npy": _npy(np.float32(1))})


def _archives() -> Iterator[Seed]:
    from fuzzing.formats import archive

    base = model_of_arrays().files
    x = _npy(np.ones((2, 6, 4, 5), np.float32))
    y = _npy(np.ones((2, 4, 9, 13), np.float32))
    for name, members, method in (
        ("one", [("x.npy", x)], 0),
        ("packed", [("x.npy", x)], 8),
        ("two", [("x.npy", x), ("deconv.npy", y)], 8),
        ("other names", [("a.npy", x), ("b.npy", y)], 0),
        ("empty", [], 0),
    ):
        yield Seed(f"npz/{name}", "x.npz", {**base, "x.npz": archive(members, method)})
    bomb = archive([("x.npy", _npy(np.zeros(30_000_000, np.uint8)))])
    yield Seed("npz/bomb", "x.npz", {**base, "x.npz": bomb})


def _profiles() -> Iterator[Seed]:
    from irdeconv.rewrite import targets as profile

    base = model_of_arrays().files
    for path in sorted((Path(profile.__file__).parent / "profiles").glob("*.toml")):
        yield Seed(f"toml/{path.stem}", "t.toml", {**base, "t.toml": path.read_bytes()})
    limits = b'max_rank = 3\n[operations]\nPad = ["amount >= 0"]\n[cost]\nmac = 1e-3\n'
    yield Seed("toml/limits", "t.toml", {**base, "t.toml": limits})


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
    for seed in _certificates():
        yield Seed(seed.name.replace("certificate", "lowered"), "low.xml", seed.files)


def _texts() -> Iterator[Seed]:
    from support import body_models

    for name in ("parts of two", "while", "nested", "if shapes differ"):
        text = body_models.MODELS[name].text
        yield Seed(f"text/{name}", "m.ird", {"m.ird": text.encode()})
    for seed in irs()[::9]:
        if seed.name.startswith("broken/"):
            continue
        text = ird.dump(ird.read(seed.files["m.xml"], seed.files["m.bin"]))
        if len(text) < 6000:
            yield Seed(f"text/{seed.name}", "m.ird", {"m.ird": text.encode()})


_KINDS: dict[str, Any] = {
    "ir": irs,
    "bin": irs,
    "onnx": _onnx,
    "onednn": _onednn,
    "npy": _arrays,
    "npz": _archives,
    "toml": _profiles,
    "certificate": _certificates,
    "lowered": _lowered,
    "text": _texts,
}
FORMATS = tuple(_KINDS)
