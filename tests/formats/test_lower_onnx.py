"""Lowering an ONNX file: only ConvTranspose nodes are replaced, all else stays as it is."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird
from irdeconv.formats.onnx_container import scopes
from support.onnx_models import FORMS, Layer, checked, types
from support.rows import each_row

UP = Layer(data=(1, 4, 5, 6), filter=(4, 3, 4, 4), attributes={"strides": [2, 2], "pads": [1] * 4})
F32 = TensorProto.FLOAT


def lowered(made: Any, form: str = "zero-insertion", **options: Any) -> Any:
    """The lowered model, checked and proved against the original."""
    data = made.SerializeToString()
    low, report = ird.lower_onnx(data, form=form, **options)
    assert all(r.form for r in report), [r.reason for r in report]
    verdict = ird.check_onnx(data, low.SerializeToString())
    assert verdict.passed, str(verdict)
    assert len(verdict.layers) == len(report)
    assert not any(n.op_type == "ConvTranspose" for s in scopes(low) for n in s.body.node)
    return checked(low)


def in_numpy(made: Any, feeds: dict[str, Any]) -> Any:
    """What irdeconv computes of an ONNX model, in order and without lowering it."""
    (out,) = ird.run(ird.convert(made.SerializeToString()), feeds, form=None).values()
    return out


# By hand ---------------------------------------------------------------------------------------


def test_the_spelling_of_each_form() -> None:
    expected = {
        "zero-insertion": ["Reshape", "Pad", "Reshape", "Conv", "Neg"],
        "phases": ["Conv", "Conv", "Conv", "Conv", "Concat", "DepthToSpace", "Neg"],
        "stacked": ["Conv", "DepthToSpace", "Slice", "Neg"],
    }
    for bias in (False, True):
        for form in expected:
            low = lowered(replace(UP, bias=bias).model(), form)
            assert types(low) == expected[form]
            convolutions = [n for n in low.graph.node if n.op_type == "Conv"]
            assert {len(n.input) for n in convolutions} == {2 + bias}
    four = Layer(data=(1, 4, 5, 6), filter=(4, 3, 2, 2), attributes={"strides": [2, 2]})
    low = lowered(four.model(), "gemm")
    assert types(low) == ["Conv", "DepthToSpace", "Neg"]
    assert len(low.graph.node[0].input) == 3


def test_numbers_by_hand() -> None:
    """1 2 spread by 2, with the taps 1 10 100: 1 10 102 20 200, 5 added."""
    made = Layer(data=(1, 1, 2), filter=(1, 1, 3), attributes={"strides": [2]}).model()
    values = {"w": [[[1, 10, 100]]], "b": [5]}
    for tensor in made.graph.initializer:
        array = np.array(values[tensor.name], np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for form in FORMS:
        out = in_numpy(lowered(made, form), {"x": np.array([[[1, 2]]], np.float32)})
        assert out.tolist() == [[[-6, -15, -107, -25, -205]]]


@pytest.mark.sampled(4)
@pytest.mark.thorough
@pytest.mark.parametrize("opset", range(11, onnx.defs.onnx_opset_version() + 1))
def test_every_operation_set(opset: int) -> None:
    """The spelling suits the set (onnx's checker), is proved, and computes the same integers."""
    same = {"strides": [2, 3], "auto_pad": "SAME_UPPER"}
    # Pads computed at run time: in set 11 with Greater and Where instead of Max.
    sized = {"strides": [2, 2], "output_shape": [10, 13]}
    for attributes, form in ((same, "phases"), (sized, "zero-insertion")):
        shapes = {"data": (2, 4, 5, 6), "filter": (4, 3, 3, 4), "open": (0, 2, 3)}
        layer = Layer(**shapes, computed=True, opset=opset, attributes=attributes)
        made = layer.model()
        low = lowered(made, form)
        assert np.array_equal(in_numpy(made, layer.feeds), in_numpy(low, layer.feeds))


# What stays ------------------------------------------------------------------------------------


def test_everything_else_stays_byte_for_byte() -> None:
    made = UP.model()
    made.producer_name, made.doc_string = "somebody", "about"
    made.metadata_props.add(key="key", value="value")
    made.opset_import.add(domain="my.domain", version=3)
    made.graph.node.add(op_type="Blur", domain="my.domain", input=["z"], output=["q"], name="blur")
    made.graph.output.add(name="q")
    made.graph.value_info.add().CopyFrom(UP.info("y", [1, 3, 10, 12]))
    note = made.graph.quantization_annotation.add(tensor_name="z")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    made.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "scale"))
    made.graph.node[0].doc_string = "the layer"
    made = onnx.ModelProto.FromString(made.SerializeToString() + b"\xfa\x7d\x03abc")  # field 2015
    original = made.SerializeToString()
    low = ird.lower_onnx(original).proto
    verdict = ird.check_onnx(original, low.SerializeToString())
    assert verdict.passed
    assert verdict.others == 2
    kept = {n.name: n.SerializeToString() for n in low.graph.node}
    for node in made.graph.node[1:]:
        assert kept[node.name] == node.SerializeToString()
    for name in ("input", "output", "value_info", "quantization_annotation"):
        assert list(getattr(low.graph, name)) == list(getattr(made.graph, name))
    assert low.graph.initializer[0].name == "scale"
    assert b"\xfa\x7d\x03abc" in low.SerializeToString()
    assert [p.value for p in low.metadata_props] == ["value"]
    last = next(n for n in low.graph.node if n.output[0] == "y")
    assert (last.doc_string, last.name) == ("the layer", "up/Conv")


def test_shared_weights_stay_for_their_other_readers() -> None:
    made = UP.model()
    made.graph.node.add(op_type="Identity", input=["w"], output=["v"], name="copy")
    made.graph.output.append(UP.info("v", UP.filter))
    assert "w" in {t.name for t in lowered(made).graph.initializer}
    assert "b" not in {t.name for t in lowered(UP.model()).graph.initializer} - {"b"}


def test_two_layers_share_a_filter() -> None:
    made = UP.model()
    second = made.graph.node.add()
    second.CopyFrom(made.graph.node[0])
    second.name, second.output[0] = "again", "y2"
    made.graph.output.append(UP.info("y2", [None] * 4))
    low = lowered(made)
    assert "w" not in {t.name for t in low.graph.initializer}
    names = [n.name for n in low.graph.node]
    assert len(set(names)) == len(names)


def test_initializers_that_are_inputs_are_constants_before_ir_version_4() -> None:
    low = lowered(replace(UP, listed=True, ir=3, opset=11).model())
    assert [i.name for i in low.graph.input] == ["x"]
    # Later they are defaults, which a caller may replace: the filter is turned at run time.
    low = lowered(replace(UP, listed=True).model())
    assert [i.name for i in low.graph.input] == ["x", "w", "b"]
    assert "Slice" in types(low)


@pytest.mark.parametrize("way", ["Constant", "Identity", "Transpose"])
def test_constants_behind_nodes(way: str) -> None:
    made = UP.model()
    w = made.graph.initializer[0]
    node = helper.make_node(way, ["w0"], ["w"], "weights")
    if way == "Constant":
        node = helper.make_node(way, [], ["w"], "weights", value=w)
        del made.graph.initializer[0]
    else:
        w.name = "w0"
        if way == "Transpose":
            node.attribute.append(helper.make_attribute("perm", [0, 1, 3, 2]))
    made.graph.node.insert(0, node)
    assert types(lowered(made)) == ["Reshape", "Pad", "Reshape", "Conv", "Neg"]


def test_quantized_weights_stay_quantized() -> None:
    made = UP.model()
    made.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(UP.weights["w"].astype(np.int8), "q")
    )
    made.graph.initializer.append(numpy_helper.from_array(np.float32(0.5), "scale"))
    made.graph.node.insert(0, helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], "dq"))
    low = lowered(made)
    assert types(low)[0] == "DequantizeLinear"
    assert "q" in {t.name for t in low.graph.initializer}


# Graphs inside ---------------------------------------------------------------------------------


def test_bodies_of_nodes() -> None:
    """A deconvolution in a branch of an If, its filter and data from outside."""
    made = UP.model()
    up = made.graph.node[0]
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = deepcopy(up)
        inner.output[0], inner.name = f"{name}_y", "up"
        branches[name] = helper.make_graph([inner], name, [], [UP.info(f"{name}_y", None)])
    made.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"], "choice", **branches))
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    report = ird.lower_onnx(made.SerializeToString()).report
    assert [r.name for r in report] == [f'up ({b} of If "choice")' for b in sorted(branches)]
    low = lowered(made)
    assert {t.name for t in low.graph.initializer} == set()
    assert all(len(s.body.initializer) for s in scopes(low) if s.parent is not None)
    first, second = made.graph.node[0].attribute
    first.g.node.append(helper.make_node("MatMul", ["x", "x"], ["z"], "wrong"))
    assert len(ird.lower_onnx(made.SerializeToString()).report) == 2  # no run need choose it
    second.g.node.append(first.g.node[-1])
    with pytest.raises(ird.InferenceError, match="MatMul"):
        ird.lower_onnx(made.SerializeToString())


def test_functions() -> None:
    """A deconvolution in a function, whose filter is an argument."""
    made = UP.model()
    up = deepcopy(made.graph.node[0])
    made.graph.node[0].op_type, made.graph.node[0].domain = "Up", "mine"
    del made.graph.node[0].attribute[:]
    opset = [helper.make_opsetid("", 17)]
    made.functions.append(helper.make_function("mine", "Up", ["x", "w", "b"], ["y"], [up], opset))
    made.opset_import.add(domain="mine", version=1)
    low = lowered(made)
    assert "ConvTranspose" not in {n.op_type for n in low.functions[0].node}
    assert "Constant" in {n.op_type for n in low.functions[0].node}
    assert list(low.graph.node) == list(made.graph.node)


def test_functions_whose_calls_give_the_attributes() -> None:
    """As torch exports modules as functions; calls that are named so are no deconvolutions."""
    made = UP.model()
    up = deepcopy(made.graph.node[0])
    call = made.graph.node[0]
    call.op_type, call.domain = "ConvTranspose2d", "torch.nn"
    for a in up.attribute:
        a.ref_attr_name = a.name
        a.ClearField("ints")
    opset, given = [helper.make_opsetid("", 17)], [a.name for a in up.attribute]
    inputs = ["x", "w", "b"]
    made.functions.append(
        helper.make_function("torch.nn", call.op_type, inputs, ["y"], [up], opset, given)
    )
    made.opset_import.add(domain="torch.nn", version=1)
    low = ird.lower_onnx(made.SerializeToString())
    (row,) = low.report
    assert row.type == "ConvTranspose"
    assert row.form is None
    assert row.reason is not None
    assert "inline the functions first" in row.reason
    assert low.proto == made
    assert types(lowered(onnx.inliner.inline_local_functions(made), "stacked"))[0] == "Conv"


# Shapes ----------------------------------------------------------------------------------------


def test_declared_shapes_behind_unknown_operations() -> None:
    made = UP.model()
    made.opset_import.add(domain="my.domain", version=1)
    made.graph.node.insert(0, helper.make_node("Blur", ["x"], ["x1"], "blur", domain="my.domain"))
    made.graph.node[1].input[0] = "x1"
    made.graph.value_info.append(UP.info("x1", UP.data))
    low = ird.lower_onnx(made.SerializeToString())
    assert [d.code for d in low.report.diagnostics] == ["W204"]
    assert "as declared" in low.report.diagnostics[0].message
    assert low.report.layers[0].macs_direct == 5 * 6 * 4 * 3 * 16
    # Without a declaration the filter tells rank and channels, and sizes are computed.
    del made.graph.value_info[:]
    low = ird.lower_onnx(made.SerializeToString())
    assert low.report.layers[0].form == "zero-insertion"
    assert "Shape" in types(low.proto)
    assert ird.check_onnx(made.SerializeToString(), low.proto.SerializeToString()).passed


@pytest.mark.parametrize(("kind", "data_type"), [("GRAPH", F32), ("TENSOR", 98)])
def test_an_attribute_without_its_value(kind: str, data_type: int) -> None:
    made = UP.model()
    value = helper.make_attribute("v", numpy_helper.from_array(np.ones(2, np.float32)))
    value.type, value.t.data_type = getattr(onnx.AttributeProto, kind), data_type
    node = helper.make_node("Blur", ["x"], ["x1"], "blur", domain="my.domain")
    node.attribute.append(value)
    made.graph.node.append(node)
    assert ird.lower_onnx(made.SerializeToString()).report.layers[0].form == "zero-insertion"


def test_an_initializer_that_does_not_fit_its_declaration() -> None:
    made = UP.model()
    made.graph.input.append(UP.info("w", (4, 3, 4, None)))
    ird.lower_onnx(made.SerializeToString())  # open dimensions fit
    made.graph.input[-1].CopyFrom(UP.info("w", (4, 3, 4, 5)))
    for verb in (ird.lower_onnx, ird.convert):
        with pytest.raises(ird.IrdeconvError, match=r"E302.*\[4,3,4,4\].*\[4,3,4,5\]"):
            verb(made.SerializeToString())


def test_a_layer_of_unknown_rank_stays_and_others_do_not() -> None:
    made = UP.model()
    made.graph.input.append(UP.info("v", None))
    made.graph.node.add(op_type="ConvTranspose", input=["y", "v"], output=["q"], name="odd")
    made.graph.output.append(UP.info("q", None))
    data = made.SerializeToString()
    low = ird.lower_onnx(data)
    assert [(r.name, r.form) for r in low.report] == [
        ("up/ConvTranspose", "zero-insertion"),
        ("odd", "zero-insertion"),
    ]  # the rank of y is known
    made.graph.input[0].type.tensor_type.ClearField("shape")
    made.graph.node[-1].input[0] = "x"
    data = made.SerializeToString()
    low = ird.lower_onnx(data)
    assert [r.form for r in low.report] == ["zero-insertion", None]
    assert "rank" in str(low.report.layers[1].reason)
    verdict = ird.check_onnx(data, low.proto.SerializeToString())
    assert verdict.passed
    assert verdict.kept == ("odd",)


def test_for_a_target_no_layer_stays() -> None:
    """Neither one that cannot be lowered nor one that no work is left for; without one they may."""
    tiny = Layer(data=(1, 1, 2, 2), filter=(1, 1, 3, 3), attributes={"strides": [2, 2]})
    data = tiny.model().SerializeToString()
    with ird.Limits(work=40_000).applied():
        (row,) = ird.lower_onnx(data, form="auto").report
        assert "limit of work" in str(row.reason)
        with pytest.raises(ird.LimitError, match="limit of work"):
            ird.lower_onnx(data, target="generic")
    made = UP.model()
    made.graph.input.append(UP.info("v", None))
    for value in (made.graph.input[0], made.graph.output[0]):
        value.type.tensor_type.ClearField("shape")
    node = next(n for n in made.graph.node if n.op_type == "ConvTranspose")
    node.input[:] = ["x", "v"]
    del node.attribute[:]
    data = made.SerializeToString()
    assert [r.form for r in ird.lower_onnx(data).report] == [None]
    with pytest.raises(ird.LoweringError, match="rank"):
        ird.lower_onnx(data, target="generic")


def test_shapes_are_given() -> None:
    data = replace(UP, open=(0, 2, 3)).model().SerializeToString()
    low = checked(ird.lower_onnx(data, shapes={"x": [1, 4, 5, 6]}).proto)
    assert "Shape" not in types(low)
    assert [d.dim_value for d in low.graph.input[0].type.tensor_type.shape.dim] == [1, 4, 5, 6]
    with pytest.raises(ird.UsageError, match='no input "q"'):
        ird.lower_onnx(data, shapes={"q": [1]})


def test_sizes_that_the_inference_of_onnx_gets_wrong() -> None:
    """Behind SAME_UPPER with output_padding it says 11; it is 10, for ONNX Runtime and for us."""
    first = {"strides": [2], "auto_pad": "SAME_UPPER", "output_padding": [1]}
    made = Layer(data=(1, 4, 5), filter=(4, 4, 3), bias=False, attributes=first).model()
    again = made.graph.node.add()
    again.CopyFrom(made.graph.node[0])
    again.name, again.input[0], again.output[0] = "again", "y", "y2"
    made.graph.output.append(UP.info("y2", [None] * 3))
    low = lowered(made)
    assert types(low).count("Conv") == 2
    x = np.arange(20, dtype=np.float32).reshape(1, 4, 5)
    results = [ird.run(ird.convert(m.SerializeToString()), [x], form=None) for m in (made, low)]
    assert results[0]["y2"].shape == (1, 4, 20)
    assert np.array_equal(results[0]["y2"], results[1]["y2"])


# Files -----------------------------------------------------------------------------------------


def external(folder: Path) -> Path:
    """A model whose filter and a large table lie in another file."""
    made = Layer(data=(1, 8, 5, 6), filter=(8, 8, 4, 4), attributes=UP.attributes).model()
    table = np.arange(4096, dtype=np.float32)
    made.graph.initializer.append(numpy_helper.from_array(table, "table"))
    made.graph.node.add(op_type="Identity", input=["table"], output=["t"], name="t")
    made.graph.output.append(UP.info("t", [4096]))
    path = folder / "net.onnx"
    onnx.save(made, path, save_as_external_data=True, location="net.data", size_threshold=100)
    return path


def test_external_data_stays_external(tmp_path: Path) -> None:
    path = external(tmp_path)
    before = (tmp_path / "net.data").read_bytes()
    out = tmp_path / "low.onnx"
    ird.lower_onnx(path, out)
    assert (tmp_path / "net.data").read_bytes() == before
    assert ird.check_onnx(path, out).passed
    proto = onnx.load(out, load_external_data=False)
    places = {t.name: t.external_data[0].value for t in proto.graph.initializer if t.external_data}
    assert places == {"table": "net.data", "up/ConvTranspose/filter": "low.onnx.data"}
    checked(onnx.load(out))


def test_external_data_is_copied_into_another_folder(tmp_path: Path) -> None:
    path, other = external(tmp_path), tmp_path / "other"
    other.mkdir()
    ird.lower_onnx(path, other / "low.onnx")
    assert sorted(p.name for p in other.iterdir()) == ["low.onnx", "low.onnx.data", "net.data"]
    assert ird.check_onnx(path, other / "low.onnx").passed
    checked(onnx.load(other / "low.onnx"))
    (other / "net.data").write_bytes(b"something else")
    with pytest.raises(ird.UsageError, match="would be overwritten"):
        ird.lower_onnx(path, other / "new.onnx")
    assert (other / "net.data").read_bytes() == b"something else"


def test_missing_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "net.data").unlink()
    (row,) = ird.lower_onnx(path).report
    assert row.form is None
    assert "net.data" in str(row.reason)
    with pytest.raises(ird.InputError, match=r"copy the whole 'net\.data' beside the model"):
        ird.read(path)


def test_a_model_in_memory_is_not_changed() -> None:
    made = UP.model()
    before = made.SerializeToString()
    low, report = ird.lower_onnx(made)
    assert made.SerializeToString() == before
    assert ird.check_onnx(made, low).passed
    assert len(report) == 1
    text = repr(ird.lower_onnx(made))
    assert text == '<LoweredOnnx "<onnx.ModelProto>": 1 of 1 deconvolution lowered, 5 nodes>'


def test_what_is_no_onnx(tmp_path: Path) -> None:
    with pytest.raises(ird.InputError, match="not an ONNX model"):
        ird.lower_onnx(b"\x00\x01nothing")
    with pytest.raises(ird.FileAccessError):
        ird.lower_onnx(tmp_path / "missing.onnx")
    with pytest.raises(ird.UsageError, match="an ONNX model is written as"):
        ird.lower_onnx(UP.model().SerializeToString(), tmp_path / "out.xml")


# Constants that are computed by long chains of nodes.


def test_a_filter_behind_a_thousand_steps() -> None:
    made = UP.model()
    (node,) = (n for n in made.graph.node if n.op_type == "ConvTranspose")
    given, node.input[1] = node.input[1], "w1100"
    steps = [
        helper.make_node("Identity", [f"w{i}" if i else given], [f"w{i + 1}"]) for i in range(1100)
    ]
    nodes = [*steps, *made.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    data = made.SerializeToString()
    low, _ = ird.lower_onnx(data)
    assert ird.check_onnx(data, checked(low).SerializeToString()).passed
    assert "Identity" not in types(low)
    assert given not in {t.name for t in low.graph.initializer}


# Old operation sets: what has no spelling there stays, with the reason.

PLAIN = {"strides": [2, 2], "pads": [1] * 4}
SIZED = {"strides": [2, 2], "output_shape": [10, 13]}


def layer(opset: int, **attributes: list[int]) -> bytes:
    open_axes = (2,) if "output_shape" in attributes else ()
    made = replace(UP, opset=opset, open=open_axes, attributes=attributes).model()
    data: bytes = made.SerializeToString()
    return data


@each_row("opset", [7, 9, 10])
def test_an_old_set_in_which_all_can_be_said(opset: int) -> None:
    low, report = ird.lower_onnx(layer(opset, **PLAIN))
    assert [r.reason for r in report] == [None]
    assert types(checked(low)) == ["Reshape", "Pad", "Reshape", "Conv", "Neg"]
    assert ird.check_onnx(layer(opset, **PLAIN), low.SerializeToString()).passed


@each_row(
    ("opset", "attributes", "reason"),
    [
        (1, PLAIN, "the nodes of a lowering need operation set 7; the model has 1"),
        (6, PLAIN, "the nodes of a lowering need operation set 7; the model has 6"),
        (10, SIZED, "pads that follow from sizes need operation set 11; the model has 10"),
    ],
)
def test_a_set_that_is_too_old(opset: int, attributes: dict[str, list[int]], reason: str) -> None:
    low, (row,) = ird.lower_onnx(layer(opset, **attributes))
    assert row.form is None
    assert row.reason == f"{reason}: onnx.version_converter raises it"
    assert types(low) == ["ConvTranspose", "Neg"]
