"""What took a deconvolution's place in an ONNX file is proved, and every mutant is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import irdeconv as ird
from support.onnx_models import FORMS, Layer, checked, info, model
from support.rows import each_row, parts

GROUPED = Layer(
    data=(1, 4, 5, 6),
    filter=(4, 3, 4, 3),
    open=(0, 2),
    attributes={"strides": [2, 2], "pads": [1, 0, 1, 1], "group": 2},
)


def copied(made: Any) -> Any:
    return onnx.ModelProto.FromString(made.SerializeToString())


def mutants(low: Any) -> Iterator[tuple[str, Any]]:
    """One number of a new tensor or attribute changed, or something of the rest."""
    for at, tensor in enumerate(low.graph.initializer):
        out = copied(low)
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[-1] += 1
        out.graph.initializer[at].CopyFrom(numpy_helper.from_array(array, tensor.name))
        yield f"{tensor.name} + 1", out
    for at, node in enumerate(low.graph.node[:-1]):
        for k, a in enumerate(node.attribute):
            out = copied(low)
            changed = out.graph.node[at].attribute[k]
            if a.ints:
                changed.ints[-1] += 1
            elif a.type == a.INT and a.name != "allowzero":
                changed.i += 1
            elif a.name == "mode":
                changed.s = b"DCR" if a.s == b"CRD" else b"CRD"
            else:
                continue
            yield f"{node.op_type} {a.name}", out
    out = copied(low)
    out.graph.node.add(op_type="Relu", input=["z"], output=["more"], name="more")
    yield "a new node", out
    out = copied(low)
    out.graph.node[-1].op_type = "Abs"
    yield "another operation", out


@pytest.mark.parametrize("step", parts(1, (3, 1)))
@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_mutants_are_refused(form: str, step: int) -> None:
    made = GROUPED.model()
    low = ird.lower_onnx(made, form=form).proto
    assert ird.check_onnx(made, low).passed
    seen = 0
    for what, mutant in list(mutants(low))[::step]:
        verdict = ird.check_onnx(made, mutant)
        # A kernel_shape that repeats the filter's is refused by whoever reads the model.
        assert not verdict.passed, what
        assert verdict.problems or verdict.layers[0].reason, what
        seen += 1
    assert seen > 8 / step


@each_row("dtype", [TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_element_types_stay(dtype: int) -> None:
    layer = Layer(
        data=(1, 4, 5, 6), filter=(4, 3, 3, 3), open=(0, 2), opset=22, ir=10, dtype=dtype,
        attributes={"strides": [2, 2]},
    )  # fmt: skip
    for form in FORMS:
        low = checked(ird.lower_onnx(layer.model(), form=form).proto)
        assert {t.data_type for t in low.graph.initializer if len(t.dims) > 2} == {dtype}
        assert ird.check_onnx(layer.model(), low).passed


def test_channels_last_with_an_activation() -> None:
    layer = Layer(data=(1, 5, 6, 4), filter=(4, 3, 3, 3), attributes={"strides": [2, 2]})
    made = layer.model()
    made.graph.node[0].domain = "com.ms.internal.nhwc"
    made.graph.node[0].attribute.append(helper.make_attribute("activation", "Relu"))
    made.opset_import.add(domain="com.ms.internal.nhwc", version=17)
    low = ird.lower_onnx(made, form="stacked").proto
    assert ird.check_onnx(made, low).passed
    x = layer.numbers((1, 5, 6, 4))
    results = [
        ird.run(ird.convert(m.SerializeToString()), [x], form=None)["z"] for m in (made, low)
    ]
    assert np.array_equal(*results)
    assert results[0].shape == (1, 11, 13, 3)


def test_what_no_valid_model_says_is_no_yes() -> None:
    """Tensors of one name, of a shape that the bytes do not fill; a node without outputs is one."""
    made = Layer(data=(1, 3, 4, 4), filter=(3, 2, 3, 3), attributes={"strides": [2, 2]}).model()
    made.graph.node.add(op_type="Print", domain="own", input=["z"], name="print")
    made.opset_import.add(domain="own", version=1)
    low = ird.lower_onnx(made, form="zero-insertion").proto
    assert ird.check_onnx(made, low)

    silent = copied(low)
    silent.graph.node.pop()
    (problem,) = ird.check_onnx(made, silent).problems
    assert 'own.Print "print"' in problem

    for at, tensor in enumerate(low.graph.initializer):
        double = copied(low)
        other = numpy_helper.from_array(1 + numpy_helper.to_array(tensor), tensor.name)
        double.graph.initializer.insert(at, other)
        with pytest.raises(ird.IrdeconvError, match="exists already"):
            ird.check_onnx(made, double)

    plain = Layer(data=(1, 3, 4, 4), filter=(3, 2, 3, 3), attributes={"strides": [2, 2]}).model()
    plain.graph.initializer.append(numpy_helper.from_array(np.arange(4.0), "more"))
    plain.graph.node.add(op_type="Neg", input=["more"], output=["minus"], name="minus")
    plain.graph.output.add(name="minus").type.tensor_type.elem_type = TensorProto.DOUBLE
    short = ird.lower_onnx(plain, form="phases").proto
    next(t for t in short.graph.initializer if t.name == "more").raw_data = b"12345"
    with pytest.raises(ird.IrdeconvError, match="do not fill the shape"):
        ird.check_onnx(plain, short)


def test_pads_as_large_as_a_number_allows_are_a_reason_and_no_allocation() -> None:
    made = Layer(data=(1, 3, 4, 4), filter=(3, 2, 3, 3), attributes={"strides": [2, 2]}).model()
    low = ird.lower_onnx(made, form="zero-insertion").proto
    pads = next(t for t in low.graph.initializer if t.name.endswith("/pads"))
    for amount in (1 << 33, 1 << 50, (1 << 62)):
        array = numpy_helper.to_array(pads).copy()
        array[-1] = amount
        pads.raw_data = array.tobytes()
        (layer,) = ird.check_onnx(made, low).layers
        assert layer.proved is None
        assert layer.reason


def model_of(nodes: list[Any], shape: list[Any], **tensors: Any) -> bytes:
    """A model from x to y."""
    ends = [info("x", shape)], [info("y", [None] * len(shape))]
    made: bytes = model(nodes, *ends, tensors).SerializeToString()
    return made


def filled(*shape: int) -> Any:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", [[1, 2, 5], ["n", 2, 5], ["n", 2, "w"]])
@pytest.mark.parametrize(("pads", "equal"), [([0, 1], True), ([1, 0], False)])
def test_one_node_that_became_one_node(shape: list[Any], pads: list[int], equal: bool) -> None:
    w, said = filled(2, 3, 3), {"strides": [2], "name": "up"}
    first = helper.make_node("ConvTranspose", ["x", "w"], ["y"], auto_pad="SAME_UPPER", **said)
    second = helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=pads, **said)
    verdict = ird.check_onnx(model_of([first], shape, w=w), model_of([second], shape, w=w))
    assert verdict.passed == verdict.equal == equal


@pytest.mark.parametrize("bias", [0, 1])
def test_a_layer_and_its_bias_have_one_certificate(bias: int) -> None:
    w, b = filled(3, 2, 3), filled(3)
    first = helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv", strides=[4])
    ends = {"first": np.array([0]), "last": np.array([9]), "axis": np.array([2])}
    second = [
        helper.make_node("Conv", ["x", "w", "b2"], ["fine"], "fine", strides=[2]),
        helper.make_node("Slice", ["fine", "first", "last", "axis", "step"], ["y"], "conv"),
    ]
    more = {**ends, "step": np.array([2]), "b2": b + np.float32(bias)}
    shape = ["n", 2, 9]
    verdict = ird.check_onnx(
        model_of([first], shape, w=w, b=b), model_of(second, shape, w=w, **more)
    )
    assert len(verdict.layers) == 1 - bias
    assert verdict.passed == verdict.equal == (bias == 0)


def test_what_is_proved_for_some_sizes_is_not_for_every_size() -> None:
    """The data are scaled in front, the filter is the inverse: only exact sizes follow that."""
    w, shape = filled(2, 3, 3), ["n", 2, 5]
    first = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2])
    second = [
        helper.make_node("Mul", ["x", "two"], ["twice"], "twice"),
        helper.make_node("ConvTranspose", ["twice", "half"], ["y"], "up", strides=[2]),
    ]
    more = {"two": np.float32(2), "half": w / np.float32(2)}
    verdict = ird.check_onnx(model_of([first], shape, w=w), model_of(second, shape, **more))
    assert verdict.equal
    assert not verdict.passed
    (layer,) = verdict.layers
    assert not layer.every
