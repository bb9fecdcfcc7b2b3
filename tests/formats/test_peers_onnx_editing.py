"""Verbs that write ONNX files: ONNX Runtime computes the same, untouched nodes keep their bytes."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import irdeconv as ird
from irdeconv.ops.activation import ReLU
from irdeconv.ops.channels import Split
from irdeconv.ops.movement import Concat, Transpose
from support.commands import answer
from support.onnx_models import Layer, checked, run_onnx, types
from support.rows import tables

TABLES = tables(__file__)

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.oracles

INSIDE = ("conv", "norm", "sum", "scaled", "left", "right", "twice", "cond", "flat", "product")


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    """The model, whose weights lie in another file, and all its tensors; net.onnx is the file."""
    monkeypatch.chdir(tmp_path)
    rng, made = np.random.default_rng(0), parser.parse_model(TABLES["net"])
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
    for node in changed.graph.node[:2]:  # names that were alike may stay so
        node.name = "alike"
    Path("alike.onnx").write_bytes(changed.SerializeToString())
    answer("rename", "alike.onnx", "layer:alike=both", "-o", "newer.onnx")
    assert [n.name for n in onnx.load("newer.onnx").graph.node].count("both") == 2


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
    made.graph.input.append(helper.make_tensor_value_info("bias", onnx.TensorProto.FLOAT, [4]))
    onnx.save(made, "net.onnx")
    said = answer("simplify", "net.onnx", "-o", "new.onnx", code=4).words
    assert 'error[E402]: the initializer "bias" is an input, too' in said
    assert "write an .xml: -o NAME.xml" in said
    answer("convert", "net.onnx", "-o", "net.xml")
    for verb in ("simplify", "rename a=b", "extract --from a", "raise"):
        said = answer(*verb.split()[:1], "net.xml", *verb.split()[1:], "-o", "b.onnx", code=2).words
        assert "makes an .onnx only of an ONNX model" in said
    for other, out in (("", "small.xml"), (":b.onnx", "small.onnx")):
        options = ["--compare", f"onnxruntime{other}", "-o", out]
        said = answer("reduce", "net.onnx", *options, code=2).words
        assert "executes the same model" in said if other else "-o small.onnx writes pieces" in said


def test_tensors_that_irdeconv_knows_little_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
      g (float[2,2,2] x) => (float[2,2,2] y) {
        [x] turned = com.microsoft.Inverse(x)  sum = Add(turned, few)  y = Neg(sum) }""")
    few = made.graph.sparse_initializer.add(dims=[2])
    few.values.CopyFrom(numpy_helper.from_array(np.array([3], np.float32), "few"))
    few.indices.CopyFrom(numpy_helper.from_array(np.array([1]), "at"))
    onnx.save(made, "net.onnx")
    answer("rename", "net.onnx", "x=photo", "-o", "new.onnx")
    graph = onnx.load("new.onnx").graph
    assert graph.input[0].name == graph.node[0].name == "photo"
    answer("extract", "net.onnx", "--to", "turned", "-o", "new.onnx")
    assert types(checked(onnx.load("new.onnx"))) == ["Inverse"]  # ONNX Runtime knows its type
    answer("extract", "net.onnx", "--from", "sum", "-o", "new.onnx")
    assert onnx.load("new.onnx").graph.sparse_initializer == made.graph.sparse_initializer
    answer("simplify", "new.onnx", "--check", "onnxruntime", "-o", "newer.onnx")
    assert onnx.load("newer.onnx") == onnx.load("new.onnx")
    command = ["--check", "sh -c '! grep -q Inverse {}'", "-o", "small.onnx"]
    assert "3 -> 1: Inverse" in answer("reduce", "net.onnx", *command).words
    made.graph.node[0].domain = "own"
    onnx.save(made, "net.onnx")
    said = answer("extract", "net.onnx", "--to", "turned", "-o", "a.onnx", code=2).words
    assert 'end at the tensor "turned", whose type is unknown' in said
    kept = sorted(tmp_path.iterdir())
    for verb in ("simplify", "raise"):
        said = answer(verb, "net.onnx", "-o", "b.onnx", code=4).words
        assert "net.onnx: error[E502]: own.Inverse" in said
        assert said.count("error[") == 1
    assert sorted(tmp_path.iterdir()) == kept


@pytest.mark.parametrize(
    ("broken", "left"), [(ReLU, "a"), (Transpose, "turned"), (Split, "left"), (Concat, "cat")]
)
def test_reduce(
    net: tuple[Any, dict[str, Any]], broken: Any, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of our own, which ONNX Runtime does not make, is reduced to its node."""
    made, tensors = net
    real = broken.evaluate

    def wrong(self: Any, *arrays: Any) -> Any:
        found = real(self, *arrays)
        factor = 2 if arrays[0].dtype == np.float32 else 1
        return tuple(factor * a for a in found) if type(found) is tuple else factor * found

    inputs = {name: tensors[name] for name in ("image", "flag")}
    with monkeypatch.context() as patch:
        patch.setattr(broken, "evaluate", wrong)
        patch.setattr(broken, "bind", lambda *_: None)
        done = ird.reduce("net.onnx", inputs=inputs, compare="onnxruntime", path="new.onnx")
    small = onnx.load("new.onnx")
    assert [n.name for n in done.layers] == [left]
    assert set(texts(small)) <= set(texts(made))
    onnx.checker.check_model(small)
    with np.load("new.npz") as arrays:
        assert len(run_onnx(small, dict(arrays))) == len(small.graph.output)
    with pytest.raises(ird.NothingToReduceError, match="both sides agree"):
        ird.reduce("net.onnx", compare="onnxruntime", path="new.onnx")


def test_python_functions_write_what_the_verbs_write(net: tuple[Any, dict[str, Any]]) -> None:
    calls: dict[str, Any] = {
        "extract --from left --to cat": lambda f, p: ird.extract(f, "left", "cat", path=p),
        "rename image=photo": lambda f, p: ird.rename(f, {"image": "photo"}, path=p),
        "simplify": lambda f, p: ird.simplify(f, path=p),
        "raise": lambda f, p: ird.raise_(f, path=p),
    }
    for text, call in calls.items():
        verb, *options = text.split()
        answer(verb, "net.onnx", *options, "-o", "new.onnx")
        wanted = Path("new.onnx").read_bytes()
        call("net.onnx", "new.onnx")
        assert Path("new.onnx").read_bytes() == wanted
        with pytest.raises(ird.UsageError, match="only an ONNX model becomes"):
            call(ird.read("net.onnx"), "again.onnx")
