"""ONNX models that stand for a lot or name other files: limits, no quadratic work, refusals."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.onnx_container import file_inside
from support.commands import Capture
from support.onnx_models import convert, info, model, node, run, single
from support.rows import each_row, tables

TABLES = tables(__file__)


def reading_x(nodes: list[Any], outputs: tuple[str, ...] = ("y",), size: int = 1) -> bytes:
    """Return a model that reads x."""
    ends = [info("x", [size])], [info(o, [size]) for o in outputs]
    return bytes(model(nodes, *ends).SerializeToString())


@each_row(
    ("limits", "nodes", "says"),
    [
        (ird.Limits(ports=7), [node("Sum", "x " * 8, "y")], "8 inputs or outputs; the limit is"),
        (
            ird.Limits(ports=7),
            [node("Split", "x", "y a b c d e f g", axis=0)],
            "8 inputs or outputs",
        ),
        (
            ird.Limits(attributes=2),
            [node("LeakyRelu", "x", "y", alpha=0.5, beta=1, gamma=2)],
            "3 attributes; the limit is 2",
        ),
        (
            ird.Limits(layers=2),
            [node("Relu", *pair) for pair in ("xa", "ab", "by")],
            "the model has 3 nodes; the limit is 2",
        ),
    ],
)
def test_nodes_beyond_a_limit(limits: ird.Limits, nodes: list[Any], says: str) -> None:
    with limits.applied(), pytest.raises(ird.LimitError, match=says) as caught:
        ird.read(reading_x(nodes))
    assert [d.code for d in caught.value.diagnostics] == ["E601"]


def test_limits_count_what_functions_and_bodies_hold() -> None:
    body = helper.make_graph([node("Sum", "x " * 5, "s")], "b", [], [info("s", [1])])
    nodes = [
        node("Constant", "", "c", value=helper.make_tensor("c", 9, [], [1])),
        node("If", "c", "y", then_branch=body, else_branch=body),
    ]
    with ird.Limits(ports=4).applied(), pytest.raises(ird.LimitError, match="5 inputs"):
        ird.read(reading_x(nodes))


def test_a_node_without_an_operation() -> None:
    with pytest.raises(ird.InputError, match="names no operation"):
        ird.read(reading_x([node("", "x", "y")]))


def test_errors_beyond_the_limit_end_the_reading() -> None:
    nodes = [node("Relu", f"lost{i}", f"z{i}") for i in range(9)]
    with ird.Limits(errors=5).applied():
        found = ird.validate(reading_x(nodes))
    assert [d.code for d in found] == ["E204"] * 6 + ["E601"]
    assert "more than 5 errors" in found[-1].message


def test_every_output_has_its_names() -> None:
    """Also where one node has many, or one tensor has many names."""
    names = [f"s{i}" for i in range(64)]
    same = [node("Identity", *pair) for pair in (("s3", "t3"), ("t3", "u3"), ("u3", "y"))]
    split = node("Split", "x", " ".join(names), axis=0)
    graph = ird.read(reading_x([split, *same], ("s0", "s63", "y"), size=64))
    made = next(graph.nodes("Split"))
    assert [n[0] for n in made.tensor_names] == names
    assert made.names_of(3)[:3] == ("s3", "t3", "u3")
    assert [graph.node(r.id).name for r in graph.results] == ["s0/result", "s63/result", "y/result"]


def test_lowering_tells_of_tensors_that_are_too_large(tmp_path: Path) -> None:
    shape = helper.make_tensor("w", 1, [1, 1, 2, 2], [1, 2, 3, 4])
    nodes = [
        node("Constant", "", "w", value=shape),
        node("ConvTranspose", "x w", "y", strides=[8, 8], dilations=[1, 1], pads=[9] * 4),
    ]
    made = model(nodes, [info("x", (1, 1, 9, 9))], [info("y", None)])
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    bytes_of = 72 * 72 * 4  # of the spread data before it is cropped
    with ird.Limits(tensor_bytes=bytes_of).applied():
        assert ird.lower(ird.read(path)).report.layers[0].form == "zero-insertion"
    with (
        ird.Limits(tensor_bytes=bytes_of - 1).applied(),
        pytest.raises(ird.LimitError, match="takes 20,736 bytes"),
    ):
        ird.lower(ird.read(path))


# What an ONNX model may name: regular files in its own folder, numbers that fit, ends.


DATA = np.arange(4, dtype=np.float32)


def external(folder: Path, *, constant: bool = False, data_type: int = 1, **place: Any) -> Path:
    """Write a model that adds a tensor in another file, w.data, to its input."""
    (folder / "w.data").write_bytes(DATA.tobytes())
    w = TensorProto(name="w", data_type=data_type, dims=place.pop("dims", [4]))
    w.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.data", **place}.items():
        w.external_data.add(key=key, value=str(value))
    made = [helper.make_node("Constant", [], ["w"], value=w)] if constant else []
    nodes = [*made, helper.make_node("Add", ["x", "w"], ["y"])]
    ends = [[helper.make_tensor_value_info(n, 1, [4])] for n in "xy"]
    graph = helper.make_graph(nodes, "g", *ends, initializer=[] if constant else [w])
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "m.onnx").write_bytes(whole.SerializeToString())
    return folder / "m.onnx"


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("place", [{}, {"offset": 0, "length": 16}, {"location": "./w.data"}])
def test_data_in_the_folder(constant: bool, place: dict[str, Any], tmp_path: Path) -> None:
    graph = ird.read(external(tmp_path, constant=constant, **place))
    assert np.array_equal(ird.run(graph, {"x": DATA})["y"], 2 * DATA)
    assert [Path(f).name for f in graph.info.files] == ["w.data"]


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    ("place", "says"),
    [
        *TABLES["refused"],
        ({"length": "9" * 5000}, "its length"),
        ({"dims": [2**62, 2**62]}, "are given"),
    ],
)
def test_refused(
    constant: bool, place: dict[str, Any], says: str, tmp_path: Path, capfd: Capture
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.data").write_bytes(DATA.tobytes())
    (folder / "outside.data").symlink_to("../w.data")
    (folder / "link").symlink_to("..")
    os.mkfifo(folder / "fifo")
    file = external(folder, constant=constant, **place)
    for verb in ("validate", "lower"):
        code = main([verb, str(file)])
        said = " ".join("".join(capfd.readouterr()).split())
        assert code in (1, 3) or (verb == "lower" and code == 0)  # nothing to do
        assert says in said or verb == "lower"


def test_bytes_that_thousands_of_tensors_share(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(DATA.tobytes())
    made = onnx.load(external(tmp_path), load_external_data=False)
    for at in range(20):
        made.graph.initializer.add().CopyFrom(made.graph.initializer[0])
        made.graph.initializer[-1].name = f"w{at}"
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ird.IrdeconvError, match="share the same bytes"):
        ird.read(tmp_path / "m.onnx")


def _read(verb: str, path: Path, codes: tuple[int, ...], capfd: Capture) -> str:
    """What a verb says of a file that it refuses."""
    more = ["-o", str(path.with_name("o.xml"))] if verb == "convert" else []
    assert main([verb, str(path), *more]) in codes
    return "".join(capfd.readouterr())


def _functions(text: str, folder: Path) -> Path:
    head = '<ir_version: 8, opset_import: ["":17, "l":1]> g (float[2] x) => (float[2] y) '
    made = onnx.parser.parse_model(head + text)
    (folder / "f.onnx").write_bytes(made.SerializeToString())
    return folder / "f.onnx"


OPSETS = '<domain: "l", opset_import: ["":17, "l":1]>'


@pytest.mark.parametrize("verb", ["validate", "lower", "convert"])
def test_functions_without_end(verb: str, tmp_path: Path, capfd: Capture) -> None:
    text = f"{{ y = l.f(x) }} {OPSETS} f (x) => (y) {{ y = l.g(x) }}"
    text += f"{OPSETS} g (x) => (y) {{ y = l.f(x) }}"
    assert "calls itself" in _read(verb, _functions(text, tmp_path), (1, 3), capfd)


@pytest.mark.parametrize("verb", ["validate", "lower", "convert"])
def test_functions_of_functions(verb: str, tmp_path: Path, capfd: Capture) -> None:
    text = "{ y = l.f0(x) }"
    for at in range(40):
        text += f"{OPSETS} f{at} (x) => (y) {{ a = l.f{at + 1}(x) y = l.f{at + 1}(a) }}"
    text += f"{OPSETS} f40 (x) => (y) {{ y = Relu(x) }}"
    assert "1,099,511,627,776" in _read(verb, _functions(text, tmp_path), (5,), capfd)


@pytest.mark.parametrize("verb", ["validate", "lower", "convert"])
@pytest.mark.parametrize("name", ["node_name", "tensor_name", "ConvTranspose", "graph_name"])
def test_names_that_are_no_text(name: str, verb: str, tmp_path: Path, capfd: Capture) -> None:
    ends = [[helper.make_tensor_value_info(n, 1, [4])] for n in ("x", "tensor_name")]
    node = helper.make_node("ConvTranspose", ["x"], ["tensor_name"], name="node_name")
    graph = helper.make_graph([node], "graph_name", *ends)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data = whole.SerializeToString().replace(name.encode(), b"\x81" * len(name))
    (tmp_path / "m.onnx").write_bytes(data)
    assert "is no UTF-8" in _read(verb, tmp_path / "m.onnx", (1, 3), capfd)


def test_names_of_files() -> None:
    assert file_inside(Path("a"), "b/c") == Path("a/b/c")
    with pytest.raises(ValueError, match="no name of a file"):
        file_inside(Path("a"), "")


@pytest.mark.parametrize("link", ["", "symbolic", "hard"])
def test_converting_onto_the_data_that_is_read(link: str, tmp_path: Path) -> None:
    path = external(tmp_path, location="w.bin")
    data = (tmp_path / "w.data").rename(tmp_path / "w.bin")
    target = tmp_path / "w.xml"
    if link:
        target = tmp_path / "linked.xml"
        (os.symlink if link == "symbolic" else os.link)(data, target.with_suffix(".bin"))
    code = main(["convert", str(path), "-o", str(target), "-q"])
    assert code == (0 if link == "hard" else 2)  # another name is replaced: what it named stays
    assert data.read_bytes() == DATA.tobytes()
    assert target.exists() == (link == "hard")
    assert main(["convert", str(path), "-o", str(target), "-q", "--force"]) == 0
    assert np.array_equal(ird.run(target, {"x": DATA})["y"], 2 * DATA)


# Models whose nodes stand in any order, old operation sets, definitions, sequences.


X = np.arange(-6, 6, dtype=np.float32).reshape(2, 3, 2)


def refusal(made: Any) -> list[str]:
    with pytest.raises(ird.IrdeconvError) as e:
        convert(made)
    return [d.message for d in e.value.diagnostics]


# Order -------------------------------------------------------------------------------------------


def test_nodes_in_any_order() -> None:
    nodes = [node("Relu", "b", "y"), node("Neg", "a", "b"), node("Abs", "x", "a")]
    (y,) = run(model(nodes, [info("x", [2])], ["y"]), {"x": np.array([-2, 3], np.float32)})
    assert y.tolist() == [0, 0]
    graph = convert(model(nodes, [info("x", [2])], ["y"]))
    assert [n.name for n in graph.topological()][1:4] == ["La", "Lb", "Ly"]


def test_a_body_comes_behind_what_it_reads() -> None:
    then = helper.make_graph([node("Neg", "a", "t")], "t", [], [info("t", None)])
    other = helper.make_graph([node("Relu", "a", "e")], "e", [], [info("e", None)])
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other), node("Abs", "x", "a")]
    made = model(nodes, [info("x", [2]), info("c", [], TensorProto.BOOL)], ["y"])
    feeds = {"x": np.array([-2, 3], np.float32), "c": np.array(True)}
    assert run(made, feeds)[0].tolist() == [-2, -3]


def test_a_circle_is_named() -> None:
    nodes = [node("Neg", "b", "a"), node("Abs", "a", "b"), node("Relu", "x", "y")]
    (text,) = refusal(model(nodes, [info("x", [2])], ["y"]))
    assert text == 'nodes that depend on each other in a circle: "La", "Lb"'


# Old operation sets ------------------------------------------------------------------------------


def test_broadcasting_from_an_axis() -> None:
    """Before operation set 7 the second input lay along the axes from `axis` on."""
    bias = np.array([10, 20, 30], np.float32)
    made = single("Add", {"x": X}, {"b": bias}, opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(run(made, {"x": X})[0], X + bias[None, :, None])
    made = single("Mul", {"x": X}, {"b": np.array([2, 3], np.float32)}, opset=6, broadcast=1)
    np.testing.assert_array_equal(run(made, {"x": X})[0], X * [2, 3])


def test_operation_set_1() -> None:
    made = single("Relu", {"x": X}, opset=1, consumed_inputs=[0])
    np.testing.assert_array_equal(run(made, {"x": X})[0], np.maximum(X, 0))
    made = single("Reshape", {"x": X}, opset=1, shape=[3, 4])
    assert run(made, {"x": X})[0].shape == (3, 4)


# Definitions -------------------------------------------------------------------------------------


def test_an_operation_without_a_rule_is_what_it_consists_of() -> None:
    labels = np.array([[2, 0]])
    made = single("NegativeLogLikelihoodLoss", {"x": X[:1]}, {"t": labels}, opset=13)
    want = -(X[0, 2, 0] + X[0, 0, 1]) / 2
    assert run(made, {"x": X[:1]})[0] == pytest.approx(want)


def test_a_version_without_a_rule_too() -> None:
    """GroupNormalization 18 has a scale for each group, 21 one for each channel."""
    x = np.random.default_rng(1).standard_normal((1, 4, 5)).astype(np.float32)
    constants = {"s": np.array([2, 3], np.float32), "b": np.array([1, -1], np.float32)}
    made = single("GroupNormalization", {"x": x}, constants, opset=18, num_groups=2)
    groups = x.reshape(2, -1)
    centred = groups - groups.mean(1, keepdims=True)
    want = centred / np.sqrt(groups.var(1, keepdims=True) + 1e-5) * [[2], [3]] + [[1], [-1]]
    np.testing.assert_allclose(run(made, {"x": x})[0], want.reshape(1, 4, 5), rtol=1e-4, atol=1e-5)


def test_what_a_definition_lacks_is_told_with_its_operation() -> None:
    made = single("SequenceMap", {"x": X}, opset=17, body=helper.make_graph([], "b", [], []))
    assert all("SequenceMap" in t for t in refusal(made))


# Sequences ---------------------------------------------------------------------------------------


def test_sequences_that_vanish() -> None:
    nodes = [
        node("SplitToSequence", "x", "s", axis=1),
        node("SequenceInsert", "s extra first", "more"),
        node("SequenceErase", "more last", "less"),
        node("SequenceAt", "less second", "one"),
        node("SequenceLength", "less", "count"),
        node("ConcatFromSequence", "less", "all", axis=1),
    ]
    constants = {
        "extra": np.full((2, 1, 2), 9, np.float32),
        "first": np.array(0),
        "second": np.array(1),
        "last": np.array(-1),
    }
    made = model(nodes, [info("x", [2, 3, 2])], ["one", "count", "all"], constants)
    one, count, every = run(made, {"x": X})
    np.testing.assert_array_equal(one, X[:, :1])
    assert count == 3
    np.testing.assert_array_equal(every, np.concatenate([constants["extra"], X[:, :2]], 1))


def test_a_sequence_cannot_be_an_output() -> None:
    made = model([node("SequenceConstruct", "x x", "y")], [info("x", [2])], ["y"])
    assert refusal(made) == ['output "y" is a sequence, not a tensor']


LOOPS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,2] x) => (float[N] y, float[M] z) <int64 n = {3}, bool go = {1}, int64 last = {2}> {
  s = SplitToSequence <axis: int = 1> (x)
  y = Loop (n, go) <body: graph = b (int64 i, bool c) => (bool d, float[N] r) {
    t = SequenceAt (s, i) r = Neg (t) d = Identity (c) }>
  e = SequenceEmpty ()
  l = Loop ("", go, e) <body: graph = b (int64 i, bool c, seq(float) o) => (bool d, seq(float) q) {
    f = Cast <to: int = 1> (i) p = Mul (x, f) q = SequenceInsert (o, p) d = Less (i, last) }>
  z = ConcatFromSequence <axis: int = 0> (l) }"""


def test_loops_over_sequences() -> None:
    y, z = run(onnx.parser.parse_model(LOOPS), {"x": X})
    np.testing.assert_array_equal(y, -X.transpose(1, 0, 2)[:, :, None])
    np.testing.assert_array_equal(z, np.concatenate([X * k for k in range(3)]))


@pytest.mark.parametrize("shape", [["a", 3, 2], [2, 3, "a"], ["a", 3, "b"], ["a", "b", "c"]])
def test_flattening_open_sizes(shape: list[Any]) -> None:
    made = model([node("Flatten", "x", "y", axis=2)], [info("x", shape)], ["y"])
    np.testing.assert_array_equal(run(made, {"x": X})[0], X.reshape(6, 2))


def test_optional_values_that_are_there() -> None:
    nodes = [
        node("Optional", "x", "o"),
        node("OptionalHasElement", "o", "there"),
        node("OptionalGetElement", "o", "y"),
    ]
    there, y = run(model(nodes, [info("x", [2, 3, 2])], ["there", "y"], opset=18), {"x": X})
    assert there.tolist() is True
    np.testing.assert_array_equal(y, X)


# Narrow types ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "saturate", "want"),
    [
        ("FLOAT8E4M3FN", 1, [448, -448, 1, np.nan]),
        ("FLOAT8E4M3FN", 0, [np.nan, np.nan, 1, np.nan]),
        ("FLOAT8E5M2", 1, [1024, -57344, 1, np.nan]),
        ("FLOAT8E5M2", 0, [1024, -np.inf, 1, np.nan]),
    ],
)
def test_casts_to_8_bits(to: str, saturate: int, want: list[float]) -> None:
    x = np.array([1000, -1e6, 1.01, np.nan], np.float32)
    number = getattr(TensorProto, to)
    (y,) = run(single("Cast", {"x": x}, opset=19, to=number, saturate=saturate), {"x": x})
    np.testing.assert_array_equal(y.astype(np.float32), np.array(want, np.float32))


def test_blocks_of_weights_stay_packed() -> None:
    """4-bit weights with a scale for each block: a constant, Convert, Subtract, Multiply."""
    data = np.resize(np.arange(-8, 8, dtype=np.int8), (4, 8))
    packed = helper.make_tensor("w", TensorProto.INT4, [4, 8], data.ravel().tolist())
    scale = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    nodes = [node("DequantizeLinear", "w s", "d", axis=1, block_size=4), node("MatMul", "x d", "y")]
    made = model(nodes, [info("x", [1, 4])], ["y"], {"s": scale}, opset=21)
    made.graph.initializer.append(packed)
    assert "i4" in [n.op.element_type.name for n in convert(made).nodes("Const")]
    x = np.ones((1, 4), np.float32)
    want = (data * np.repeat(scale, 4, 1)).sum(0, keepdims=True)
    np.testing.assert_array_equal(run(made, {"x": x})[0], want)


def test_of_many_errors_the_first_are_shown() -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    nodes = [helper.make_node("Relu", [f"lost{i}"], [f"y{i}"]) for i in range(300)]
    graph = helper.make_graph([*nodes, helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    with pytest.raises(ird.InputError) as e:
        ird.convert(helper.make_model(graph).SerializeToString())
    found = [d.message for d in e.value.diagnostics]
    assert len(found) == 101
    assert found[-1] == "200 more like this one are not shown"
