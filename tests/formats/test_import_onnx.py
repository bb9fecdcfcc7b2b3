"""Importing ONNX: names, constants, operation sets, open shapes, refusals, the verb convert."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.models import import_model
from irdeconv.formats.reading import Reading
from support.commands import answer

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.oracles

from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

from support.onnx_models import convert, info, model, node, run, single  # noqa: E402
from support.rows import each_row  # noqa: E402

X = np.arange(2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)
W = np.arange(3 * 2 * 3 * 3, dtype=np.float32).reshape(3, 2, 3, 3)


def refused(made: Any) -> list[ird.Diagnostic]:
    with pytest.raises(ird.UnsupportedError) as e:
        convert(made)
    assert e.value.exit_code == 4
    return e.value.diagnostics


# Names, places, structure ------------------------------------------------------------------------


def test_names_and_versions(tmp_path: Path) -> None:
    nodes = [node("ConvTranspose", "x w", "t", strides=[2, 2]), node("Relu", "t", "y")]
    path = tmp_path / "net.onnx"
    onnx.save(model(nodes, [info("x", X.shape)], ["y"], {"w": W}, opset=13), path)
    graph = ird.convert(path)
    assert (graph.inputs, graph.outputs) == (["x"], ["y"])
    layer = graph.find("Lt")[0]
    assert (layer.type, layer.op.version) == ("ConvTranspose", "onnx_opset11")
    assert layer.tensor_names == (("t",),)
    assert layer.location.file == str(path)
    assert graph.find("w")[0].type == "Const"
    types = "Parameter Const ConvTranspose ReLU Result"
    assert [n.type for n in graph.nodes()] == types.split()


@each_row(("opset", "version"), [(7, 1), (10, 1), (11, 11), (21, 11), (22, 22)])
def test_the_operation_set_selects_the_deconvolution(opset: int, version: int) -> None:
    graph = convert(single("ConvTranspose", {"x": X}, {"w": W}, opset=opset))
    assert graph.find("n")[0].op.version == f"onnx_opset{version}"


def test_an_attribute_of_a_newer_version() -> None:
    """DequantizeLinear has an axis from version 13 on; ONNX Runtime refuses it before."""
    x, scale = np.ones((2, 3), np.int8), {"s": np.ones(3, np.float32)}
    (found,) = refused(single("DequantizeLinear", {"x": x}, scale, opset=12, axis=1))
    assert "version 10 has no attribute axis" in found.message
    convert(single("DequantizeLinear", {"x": x}, scale, opset=13, axis=1))


def test_semantics_of_version_1() -> None:
    x, w = np.ones((1, 1, 3), np.float32), np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    made = single("ConvTranspose", {"x": x}, {"w": w}, opset=7, auto_pad="SAME_UPPER", strides=[1])
    first, second = (
        ird.run(convert(made, semantics=s), [x], form=None)["y0"] for s in ("runtime", "document")
    )
    assert not np.array_equal(first, second)


def test_channels_last_deconvolution() -> None:
    made = single("ConvTranspose", {"x": X[:, :, :, :3]}, {"w": W})
    made.graph.node[0].domain = "com.ms.internal.nhwc"
    made.graph.node[0].attribute.append(helper.make_attribute("activation", "Relu"))
    made.opset_import.append(helper.make_opsetid("com.ms.internal.nhwc", 11))
    graph = convert(made)
    assert graph.find("n")[0].op.version == "com.ms.internal.nhwc_11"
    assert ird.infer(graph).results[0].spec().shape == (2, 5, 6, 2)


def test_a_layout_of_one_processor_says_how_to_save_for_all() -> None:
    made = single(
        "Conv",
        {"x": np.zeros((1, 16, 4, 4), np.float32)},
        {"w": np.zeros((16, 16, 3, 3), np.float32)},
    )
    made.graph.node[0].domain = "com.microsoft.nchwc"
    made.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(ird.UnsupportedError, match="ORT_ENABLE_EXTENDED"):
        convert(made)


def test_outputs_keep_their_names_where_nothing_is_computed() -> None:
    nodes = [
        node("Identity", "x", "a"),
        node("Dropout", "x", "b"),
        node("Flatten", "x", "c", axis=2),
        node("Identity", "k", "d"),
    ]
    made = model(nodes, [info("x", (2, 3))], ["a", "b", "c", "d", "x"], {"k": np.arange(3)})
    graph = convert(made)
    assert graph.outputs == ["a", "b", "c", "d", "x"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    outs = ird.run(graph, {"x": x})
    assert all(np.array_equal(outs[k].reshape(2, 3), x) for k in "abcx")
    assert outs["d"].tolist() == [0, 1, 2]


def test_inputs_left_out_and_several_outputs() -> None:
    made = single("Clip", {"x": X}, {"high": np.float32(5)}, inputs=["x", "", "high"])
    assert np.array_equal(run(made, {"x": X})[0], np.minimum(X, 5))
    nodes = [node("Split", "x", "a b c", axis=1), node("Add", "a c", "y")]
    made = model(nodes, [info("x", X.shape)], ["y", "b"], opset=11)
    got = run(made, {"x": X})
    assert np.array_equal(got[0], X[:, :1] + X[:, 2:])
    assert np.array_equal(got[1], X[:, 1:2])


def test_local_functions_are_inlined() -> None:
    twice = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    made = model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], [info("x", [3])], ["y"])
    made.functions.append(twice)
    made.opset_import.append(helper.make_opsetid("mine", 1))
    assert run(made, {"x": np.ones(3, np.float32)})[0].tolist() == [2, 2, 2]


# Constants and shapes ----------------------------------------------------------------------------

TYPES = "FLOAT DOUBLE FLOAT16 BFLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8 BOOL INT4"


@each_row("name", TYPES.split())
@each_row("raw", [True, False])
def test_constant_types(name: str, raw: bool) -> None:
    kind = getattr(TensorProto, name)
    values = np.array([0, 1, 3]).astype(helper.tensor_dtype_to_np_dtype(kind))
    data = values.tobytes() if raw else values
    if raw and name == "INT4":
        data = bytes([0x10, 0x03])
    tensor = helper.make_tensor("t", kind, [3], data, raw=raw)
    made = model([helper.make_node("Constant", [], ["y"], value=tensor)], [], ["y"], opset=21)
    got = run(made, {})[0]
    assert got.astype(np.float32).tolist() == [0, 1, 1 if name == "BOOL" else 3]


def test_external_data(tmp_path: Path) -> None:
    made = single("ConvTranspose", {"x": X}, {"w": W})
    want = run(made, {"x": X})[0]
    path = tmp_path / "net.onnx"
    onnx.save(made, path, save_as_external_data=True, location="net.bin", size_threshold=0)
    got = ird.run(ird.convert(path), {"x": X}, form=None)["y0"]
    assert np.array_equal(got, want)
    assert main(["convert", str(path), "-o", str(tmp_path / "net.xml")]) == 2
    assert main(["convert", str(path), "-o", str(tmp_path / "other.xml")]) == 0
    with pytest.raises(ird.InputError, match="another file"):
        ird.convert(path.read_bytes())
    (tmp_path / "net.bin").unlink()
    with pytest.raises(ird.InputError):
        ird.convert(path)


def test_open_shapes() -> None:
    made = model(
        [node("ConvTranspose", "x w", "y", strides=[2, 2])],
        [info("x", ["n", 3, None, 4])],
        ["y"],
        {"w": W},
    )
    graph = ird.infer(convert(made))
    assert str(graph.parameters[0].spec()) == "f32[?,3,?,4]"
    assert str(graph.results[0].spec()) == "f32[?,2,?,9]"
    fixed = ird.infer(convert(made, shapes={"x": [2, 3, 4, 4]}))
    assert fixed.results[0].spec().shape == (2, 2, 9, 9)
    with pytest.raises(ird.UsageError, match="did you mean"):
        convert(made, shapes={"xx": [2, 3, 4, 4]})


def test_shapes_that_are_computed() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "u"),
        node("Concat", "u rest", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    given = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    graph = convert(model(nodes, [info("x", ["n", 3, 4, 4])], ["y"], given))
    assert str(ird.infer(graph).results[0].spec()) == "f32[?,?]"
    assert ird.run(graph, {"x": X})["y"].shape == (2, 48)


def test_folded_constants_may_be_rounded_otherwise() -> None:
    """The bounds of Exp and Sqrt count where an Add reads what was made of a constant."""
    nodes = [node("Exp", "c", "e"), node("Sqrt", "e", "s"), node("Transpose", "s", "t")]
    nodes.append(node("Add", "x t", "y"))
    made = model(nodes, [info("x", [3, 2])], [info("y", [3, 2])], {"c": W[:2, 0, 0, :3]})
    graph, x = convert(made), {"x": np.zeros((3, 2), np.float32)}
    assert [n.type for n in graph.nodes()] == ["Parameter", "Const", "Add", "Result"]
    y = ird.run(graph, x)["y"]
    for ulps, passed in ((3, True), (500, False)):
        assert ird.compare(graph, {"y": y * np.float32(1 + ulps * 2**-23)}, x).passed == passed


def test_constants_are_folded() -> None:
    nodes = [node("Mul", "a b", "p"), node("Add", "x p", "y")]
    graph = convert(
        model(nodes, [info("x", [3])], ["y"], {"a": np.ones(3, "f"), "b": np.ones(3, "f")})
    )
    assert [n.type for n in graph.nodes()] == ["Parameter", "Const", "Add", "Result"]


EMPTY, TWICE = np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)
STATISTICS = {k: np.ones(3, np.float32) for k in ("scale", "bias", "mean", "var")}


OVERHANG = {"ceil_mode": 1, "count_include_pad": 1, "pads": [1, 1, 0, 0]}


def pooled(kind: str, kernel: list[int], strides: list[int], **more: Any) -> Any:
    return single(kind, {"x": X}, kernel_shape=kernel, strides=strides, **more)


# Refusals ----------------------------------------------------------------------------------------


def test_everything_uncovered_is_listed_at_once() -> None:
    nodes = [
        node("StringNormalizer", "x", "a"),
        node("Mod", "x x", "b"),
        node("TfIdfVectorizer", "a", "c"),
        node("Relu", "x", "d"),
    ]
    found = refused(model(nodes, [info("x", [2, 2])], ["a", "b", "c", "d"], opset=13))
    assert [d.layer for d in found] == ["La", "Lb", "Lc"]
    assert {d.code for d in found} == {"E502"}
    at = "(operation set 13)"
    assert found[0].message == f'StringNormalizer "La" {at}: the operation is not covered'
    assert "fmod=0" in found[1].message


def test_one_line_for_what_is_uncovered_in_many_layers() -> None:
    names = "abcde"
    nodes = [node("TfIdfVectorizer", "x", n) for n in names]
    nodes.insert(1, node("Relu", "x", "r", speed=3))
    nodes.insert(3, node("Relu", "x", "s", speed=3))
    found = refused(model(nodes, [info("x", [2, 2])], list(names), opset=13))
    at = "(operation set 13): the"
    assert [d.message for d in found] == [
        f'TfIdfVectorizer {at} operation is not covered: "La", "Lb", "Lc" and 2 more',
        f'Relu {at} attribute speed is not covered: "Lr", "Ls"',
    ]
    assert [d.layer for d in found] == ["La", "Lr"]


@each_row(
    ("made", "text"),
    [
        (single("Relu", {"x": X}, opset=999), "operation set 999"),
        (single("Relu", {"x": X}, speed=3), "the attribute speed is not covered"),
        (single("Pad", {"x": X}, {"p": np.zeros(8, "i8")}, mode="far", opset=19), "mode=far"),
        (single("Softmax", {"x": X}, axis=7), "axis is 7"),
        (single("Resize", {"x": X}, {"r": EMPTY, "s": TWICE}, mode="far", opset=18), "mode=far"),
        (
            single("Resize", {"x": X}, {"r": EMPTY, "s": TWICE, "z": np.int64([2, 2])}, opset=13),
            "one of scales and sizes",
        ),
        (single("Gemm", {"x": np.ones((1, 1, 2, 2), "f4"), "w": X}), "A has rank 4, not 2"),
        (pooled("MaxPool", [1, 1], [4, 4], auto_pad="SAME_UPPER"), "negative"),
        (pooled("AveragePool", [2, 2], [2, 2], **OVERHANG), "beyond"),
        (single("BatchNormalization", {"x": X}, STATISTICS, opset=6), "is_test=0"),
        (single("Cast", {"x": X}, to=TensorProto.STRING), "conversion"),
        (single("Gelu", {"x": X}), "this operation set does not have"),
        (single("ConvTranspose", {"x": X}, {"w": X}, auto_pad="SAME"), 'auto_pad="SAME" is none'),
        (
            model([node("Trilu", "x", "y")], [info("x", [2, "n"])], ["y"]),
            'infer(model, {"x": [2,64]})',
        ),
    ],
)
def test_refusals(made: Any, text: str) -> None:
    found = refused(made)
    assert len(found) == 1
    assert text in f"{found[0].message} {found[0].hint}"


def test_what_a_peer_computes_differently_is_a_warning() -> None:
    made = single(
        "AveragePool", {"x": X}, kernel_shape=[2, 2], strides=[2, 2], opset=22, **OVERHANG
    )
    found = import_model(made.SerializeToString()).diagnostics
    assert {d.code for d in found} == {"W303"}
    assert "ONNX Runtime counts the whole kernel" in found[0].message


OPEN_RANK = """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[] y) {
  s = Shape (x) c = Cast <to: int = 9> (s)
  y = If (c) <then_branch: graph = t () => (float[] a) { a = Squeeze (x) },
              else_branch: graph = e () => (float[] b) { b = Identity (x) }> }"""


def test_an_output_of_open_rank_is_a_warning() -> None:
    made = parser.parse_model(OPEN_RANK).SerializeToString()
    (found,) = import_model(made).diagnostics
    assert found.code == "W303"
    assert "--shape" in found.message
    assert not import_model(made, Reading(shapes={"x": (1,)})).diagnostics
    for source in (made, parser.parse_model(OPEN_RANK)):
        with pytest.raises(ird.UsageError, match="contains its weights"):
            ird.convert(source, weights="weights.npz")


def test_sequences_and_control_flow_are_refused() -> None:
    body = helper.make_graph([], "b", [], [info("x", [1])])
    made = model([helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
                 [info("c", [], TensorProto.BOOL)], ["y"])  # fmt: skip
    assert "If" in refused(made)[0].message
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)
    made = model([node("SequenceLength", "x", "y")], [sequence], ["y"])
    assert any("sequence" in d.message for d in refused(made))


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ird.InferenceError) as e:
        convert(single("ConvTranspose", {"x": X[:, :2]}, {"w": W}))
    found = e.value.diagnostics[0]
    assert found.code == "E302"
    assert found.message.startswith('ConvTranspose "n" (operation set 17): data has 2 channels')


def test_files_that_are_no_models(tmp_path: Path) -> None:
    for data in (b"", b"PK\x03\x04 what", b"\xff" * 64):
        with pytest.raises(ird.InputError):
            ird.convert(data)
    with pytest.raises(ird.FileAccessError):
        ird.convert(tmp_path / "none.onnx")
    made = model([node("Add", "x lost", "y")], [info("x", [1])], ["y"])
    with pytest.raises(ird.InputError, match='"lost" has no producer'):
        convert(made)
    with pytest.raises(ird.UsageError, match="weights"):
        ird.convert(made.SerializeToString(), weights="random")


# The verb ----------------------------------------------------------------------------------------


def test_convert_writes_an_ir(tmp_path: Path) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / "net.xml"
    made = single("ConvTranspose", {"x": X}, {"w": W}, opset=10, auto_pad="SAME_UPPER")
    onnx.save(made, source)
    captured = answer("convert", source, "-o", target)
    assert "ConvTranspose      1" in captured.out
    assert "input x: f32[2,3,4,4]" in captured.out
    assert "ONNX, operation set 10: 1 node became" in captured.out
    assert "BackpropData" in target.read_text("utf-8")
    again = ird.run(ird.read(target), {"x": X}, form=None)
    assert np.array_equal(again["y0"], run(made, {"x": X})[0])


def test_convert_as_json(tmp_path: Path) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / "net.xml"
    onnx.save(model([node("Relu", "x", "y")], [info("x", [None, 3])], ["y"]), source)
    found = answer("convert", source, "-o", target, "--format", "json").json
    assert found["schema"] == "irdeconv/convert/1"
    assert found["node_types"] == {"Relu": 1}
    assert found["inputs"] == {"x": "f32[?,3]"}
    args = ["convert", str(source), "-o", str(target), "--shape", "x[2,3]", "--format", "json"]
    assert answer(*args).json["outputs"] == {"y": "f32[2,3]"}


def test_exit_codes(tmp_path: Path) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / "net.xml"
    onnx.save(model([node("TfIdfVectorizer", "x", "y")], [info("x", [2, 2])], ["y"]), source)
    assert "error[E502]" in answer("convert", source, "-o", target, code=4).err
    assert not target.exists()


def test_numpy_helper_and_typed_fields_agree() -> None:
    array = np.array([[1.5, -2]], np.float16)
    tensor = numpy_helper.from_array(array, "k")
    made = model([node("Identity", "k", "y")], [], ["y"])
    made.graph.initializer.append(tensor)
    assert np.array_equal(run(made, {})[0], array)


def test_damaged_bytes_are_no_crash() -> None:
    rng = np.random.default_rng(8)
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Softmax", "a", "y", axis=1)]
    made = model(nodes, [info("x", X.shape)], ["y"], {"w": W[:2].reshape(1, 4, 3, 3)[:, :3]})
    whole = made.SerializeToString()
    for _ in range(400):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            ird.convert(bytes(data))
        except ird.IrdeconvError as e:
            assert e.diagnostics  # noqa: PT017 -- both ends are right, a traceback is not


@pytest.mark.parametrize(
    ("dims", "names"),
    [([1, 3], []), (["n", 3], []), ([None, None], []), (None, []), ([1, 4], ["y"]), ([3], ["y"])],
)
def test_declared_shapes_that_contradict_the_inferred_ones(dims: Any, names: list[str]) -> None:
    made = model([node("Relu", "x", "y"), node("Abs", "y", "z")], [info("x", [1, 3])], ["z"])
    made.graph.value_info.append(info("y", dims))
    for declared in (made, model([node("Relu", "x", "y")], [info("x", [1, 3])], [info("y", dims)])):
        found = ird.validate(declared)
        assert [d.code for d in found] == ["W202"] * len(names)
        assert not any(d.notes for d in found)
        assert all("the tensor 'y' is declared" in d.message for d in found)
    assert not ird.validate(made, shapes={"x": [1, 4]})
    made.graph.output[0].CopyFrom(info("z", dims))
    found = ird.validate(made)  # z follows from y
    assert len(found) == len(names)
    assert [n.message for d in found for n in d.notes] == ["1 tensor behind it differs, too"] * len(
        names
    )
