"""Verbs that write ONNX files: ONNX Runtime computes the same, untouched nodes keep their bytes."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from support.commands import answer
from support.onnx_models import Layer, checked, run_onnx, types

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.oracles

NET = """
<ir_version: 8, opset_import: ["": 17, "own": 1], producer_name: "p", metadata_props: ["k": "v"]>
g (float[2,4,6,6] image, bool flag) => (float[N,8] out, float[2,4,6,6] copy)
  <int64[1] all = {-1}, int64[1] first = {0}, int64[1] axis = {1}> {
  copy = Identity(image)
  conv = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(image, W, bias)
  norm = BatchNormalization(conv, scale, bias, bias, scale)
  drop = Dropout(norm)
  a = Relu(drop)
  b = Relu(norm)
  sum = Add(a, b)
  shape = Shape(sum)
  rows = Gather<axis = 0>(shape, first)
  target = Concat<axis = 0>(rows, all)
  two = Constant<value = float {2.0}>()
  scaled = Mul(sum, two)
  left, right = Split<axis = 1>(scaled)
  twice = own.twice(left)
  cond = If(flag) <then_branch = t () => (float[2,2,6,6] x) { x = Add(left, right) },
    else_branch = e () => (float[2,2,6,6] z) { y = Mul(right, right)  z = Sub(y, left) }>
  cat = Concat<axis = 1>(cond, twice)
  flat = Reshape(cat, target)
  turned = Transpose<perm = [1, 0]>(V)
  product = MatMul(flat, turned)
  dead = Neg(product)
  long = Unsqueeze(product, axis)
  short = Squeeze(long, axis)
  out = Add(short, product)
}
<domain: "own", opset_import: ["": 17]> twice (x) => (y) { y = Add(x, x) }
"""
INSIDE = ("conv", "norm", "sum", "scaled", "left", "right", "twice", "cond", "flat", "product")


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    """The model, whose weights lie in another file, and all its tensors; net.onnx is the file."""
    monkeypatch.chdir(tmp_path)
    rng, made = np.random.default_rng(0), parser.parse_model(NET)
    shapes = {"W": (4, 4, 3, 3), "V": (8, 144), "bias": (4,), "scale": (4,)}
    for name, shape in shapes.items():
        values = rng.integers(1, 4, shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(values, name))
    feeds = {"image": rng.integers(-3, 4, (2, 4, 6, 6)).astype(np.float32), "flag": np.array(True)}
    np.save("image.npy", feeds["image"])
    every = type(made).FromString(made.SerializeToString())
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in INSIDE)
    known = zip([o.name for o in every.graph.output], run_onnx(every, feeds), strict=True)
    onnx.save(made, "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    return onnx.load("net.onnx", load_external_data=False), {**feeds, **dict(known)}


def same(tensors: dict[str, Any], names: dict[str, str] | None = None) -> Any:
    """The model in new.onnx, whose outputs ONNX Runtime computes as those of net.onnx."""
    made, names = onnx.load("new.onnx"), names or {}
    feeds = {i.name: tensors[names.get(i.name, i.name)] for i in made.graph.input}
    for o, value in zip(made.graph.output, run_onnx(made, feeds), strict=True):
        np.testing.assert_allclose(value, tensors[names.get(o.name, o.name)], rtol=1e-6)
    onnx.checker.check_model(made)
    assert made.metadata_props[0].value == "v"
    return made


def texts(made: Any) -> list[bytes]:
    return [n.SerializeToString() for n in made.graph.node]


def test_extract(net: tuple[Any, dict[str, Any]]) -> None:
    r, (made, tensors) = random.Random(0), net
    for _ in range(6):
        begin, end = sorted(r.sample(range(len(INSIDE)), 2))
        ends = ["--from", f"tensor:{INSIDE[begin]}", "--to", f"tensor:{INSIDE[end]}"]
        code = 2 if {INSIDE[begin], INSIDE[end]} in ({"left", "right"}, {"right", "twice"}) else 0
        answer("extract", "net.onnx", *ends, "-o", "new.onnx", code=code)
        if not code:
            piece = same(tensors)
            assert set(texts(piece)) < set(texts(made))
    for system in ("irdeconv", "onnxruntime"):
        options = ["--save-inputs", "--run-in", system, "-i", "image=@image.npy", "-i", "flag=ones"]
        answer("extract", "net.onnx", "--from", "cond", "--to", "flat", *options, "-o", "new.onnx")
        with np.load("new_inputs.npz") as saved:
            assert all(np.allclose(saved[name], tensors[name]) for name in saved)
            assert set(saved) == {"left", "right", "flag", "twice"}
    assert [t.name for t in same(tensors).graph.initializer] == ["target"]  # known by shapes


def test_rename(net: tuple[Any, dict[str, Any]]) -> None:
    made, tensors = net
    pairs = {"image": "photo", "left": "links", "W": "weights", "tensor:cond": "chosen"}
    answer("rename", "net.onnx", *map("=".join, pairs.items()), "-o", "new.onnx")
    changed = same(tensors, {new: old.partition(":")[2] or old for old, new in pairs.items()})
    assert [i.name for i in changed.graph.input] == ["photo", "flag"]
    kept = set(texts(made)) & set(texts(changed))
    assert len(kept) == len(made.graph.node) - 6
    assert "E508" in answer("rename", "net.onnx", "left=y", "-o", "new.onnx", code=2).err


@pytest.mark.parametrize("options", [[], ["--fuse"]])
def test_simplify(net: tuple[Any, dict[str, Any]], options: list[str]) -> None:
    made, tensors = net
    options = [*options, "--check", "onnxruntime", "-o", "new.onnx"]
    said = answer("simplify", "net.onnx", *options).words
    small = same(tensors)
    left = ["Identity", "Conv", "BatchNormalization", "Relu", "Add", "Constant", "Mul", "Split"]
    left += ["twice", "If", "Concat", "Reshape", "MatMul", "Add"]
    assert types(small) == [t for t in left if "--fuse" not in options or "Batch" not in t]
    assert f"23 nodes became {len(small.graph.node)}" in said
    assert {"target", "turned"} < {t.name for t in small.graph.initializer}
    kept = [n for n in made.graph.node if n.op_type in ("Identity", "Constant", "Split", "twice")]
    assert set(texts(small)) >= {n.SerializeToString() for n in kept}


def test_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layer = Layer(data=(1, 4, 5, 6), filter=(4, 3, 4, 4), attributes={"strides": [2, 2]})
    Path("up.onnx").write_bytes(layer.model().SerializeToString())
    answer("lower", "up.onnx", "-o", "net.onnx", "--form", "stacked")
    answer("raise", "net.onnx", "-o", "new.onnx", "--certify")
    raised = checked(onnx.load("new.onnx"))
    assert types(raised) == ["ConvTranspose", "Neg"]
    assert texts(raised)[1:] == texts(onnx.load("up.onnx"))[1:]
    np.testing.assert_equal(run_onnx(raised, layer.feeds), run_onnx("up.onnx", layer.feeds))


def test_odd_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x, int64 n, bool c) => (float[2] y) <float[2] W = {1, 2}, float[1] half = {0.5}> {
        V = Neg(W)  dead = Abs(x)
        s = Add(x, V)
        y = Loop(n, c, s) <body = b (int64 i, bool d, float[2] t) => (bool e, float[2] u)
          { e = Identity(d)  u = Add(t, s) }> }""")
    note = made.graph.quantization_annotation.add(tensor_name="W").quant_parameter_tensor_names
    note.add(key="SCALE_TENSOR", value="half")
    onnx.save(made, "net.onnx")
    answer("raise", "net.onnx", "-o", "new.onnx")
    assert onnx.load("new.onnx") == made  # its Loop, dead node, note of a constant
    answer("extract", "net.onnx", "--to", "V", "-o", "new.onnx")
    assert not onnx.load("new.onnx").graph.input
    made.graph.output.add().CopyFrom(made.graph.output[0])
    onnx.save(made, "net.onnx")
    answer("extract", "net.onnx", "--from", "tensor:s", "-o", "new.onnx")
    assert [o.name for o in onnx.load("new.onnx").graph.output] == ["y"]
    del made.graph.output[1]
    inside = made.graph.node[3].attribute[0].g
    inside.sparse_initializer.add().values.name = inside.node[1].input[0] = "few"
    onnx.save(made, "net.onnx")
    said = answer("rename", "net.onnx", "x=photo", "-o", "new.onnx").words
    assert said.startswith("tensor x -> photo")  # inputs are no layers


def test_what_an_onnx_file_cannot_have(net: tuple[Any, dict[str, Any]]) -> None:
    made, _ = net
    made.graph.input.add(name="bias").type.CopyFrom(made.graph.input[0].type)
    onnx.save(made, "net.onnx")
    said = answer("simplify", "net.onnx", "-o", "new.onnx", code=4).words
    assert 'error[E402]: the initializer "bias" is an input, too' in said
    assert "write an .xml: -o NAME.xml" in said
    answer("convert", "net.onnx", "-o", "net.xml")
    for verb in ("simplify", "rename a=b", "extract --from a", "raise"):
        said = answer(*verb.split()[:1], "net.xml", *verb.split()[1:], "-o", "b.onnx", code=2).words
        assert "net.xml is no ONNX model" in said
    options = ["--compare", "onnxruntime", "-o", "small.xml"]
    assert "cannot read" in answer("reduce", "net.onnx", *options, code=2).words
