"""What models are fed: one array, names of tensors, arrays of other packages; asked outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ops.basic import Parameter, Result
from irdeconv.run.feeds import NoArrayError, array_of, is_array

HEAD = Path("ir_samples/openvino/segmentation_head.xml")
IMAGE = np.linspace(-1, 1, 3 * 32 * 32, dtype=np.float32).reshape(1, 3, 32, 32)


class Tensor:
    """An array of another package: it converts itself, or says why not."""

    def __init__(self, values: Any = None, error: str = "", **facts: Any) -> None:
        self.values, self.error = values, error
        for name, fact in facts.items():
            setattr(self, name, fact)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.error:
            raise RuntimeError(self.error)
        return np.asarray(self.values, dtype)


class Capsule:
    """An array that only knows DLPack."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


def adder() -> Graph:
    """Two inputs; `sum` needs both, `left` only the first."""
    g = Graph()
    for name in ("a", "b"):
        node = g.add(Parameter((2,), f32), name=name)
        node.tensor_names = ((f"{name}:0",),)
    g.add(REGISTRY["ReLU", "opset1"](), [Value(0)], name="left")
    g.add(REGISTRY["Add", "opset1"](), [Value(2), Value(1)], name="sum")
    g.add(Result(), [Value(3)], name="out")
    return ird.infer(g)


def test_a_single_array_is_that_of_the_only_input() -> None:
    expected = ird.run(HEAD, {"image": IMAGE})["mask"]
    for given in (
        IMAGE,
        [IMAGE],
        (IMAGE,),
        Tensor(IMAGE),
        Capsule(IMAGE),
        {"image": Tensor(IMAGE)},
    ):
        np.testing.assert_allclose(ird.run(HEAD, given)["mask"], expected, rtol=1e-6)
    np.testing.assert_allclose(ird.compile(HEAD).run(IMAGE)["mask"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (np.ones(2), "a single array is given; the model has 2 inputs: a:0 f32[2], b:0 f32[2]"),
        (Tensor(np.ones(2)), "a single array is given"),
        ([np.ones(2)], "1 input given; the model has 2 inputs"),
        ({}, 'input "a" f32[2] is missing'),
        ({}, 'input "b" f32[2] is missing'),
        ("a", "inputs are arrays by name, arrays in order or an array, not a str"),
        (None, "not a NoneType"),
    ],
)
def test_two_inputs_want_two_arrays(feeds: Any, message: str) -> None:
    with pytest.raises(ird.UsageError) as caught:
        ird.run(adder(), feeds)
    assert message in str(caught.value)


def test_the_mend_names_the_inputs() -> None:
    with pytest.raises(ird.UsageError) as caught:
        ird.run(adder(), np.ones(3))
    assert len(caught.value.diagnostics) == 1  # that the shape fits neither says nothing more
    assert 'give them by name: {"a:0": ..., "b:0": ...}' in str(caught.value)


def test_names_of_layers_and_tensors_are_keys() -> None:
    for feeds in ({"a": [1, 2], "b": [3, 4]}, {"a:0": [1, 2], "b:0": [3, 4]}):
        np.testing.assert_array_equal(ird.run(adder(), feeds)["out"], [4, 6])


def test_arrays_that_fit_are_taken_as_they_are_however_they_are_given() -> None:
    binder, a, b = ird.compile(adder()).binder, np.float32([1, 2]), np.float32([3, 4])
    for feeds in ([a, b], (a, b), {"b:0": b, "a:0": a}, {"a": a, "b": b}, {"a:0": a, "b": b}):
        taken = binder.bind(feeds)
        assert taken[0] is a
        assert taken[1] is b
    given = [a, b]
    assert binder.bind(given) is not given  # the caller's list stays the caller's


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"a:0": np.ones(2, "f4"), "b:0": np.ones(2, "f4"), "c": 0}, 'no input "c"'),
        ({"a:0": np.ones(2, "f4"), "c": np.ones(2, "f4")}, 'no input "c"'),
        ([np.ones(2, "f4"), np.ones((1, 2), "f4")], "shape [1,2] was given"),
        ([np.full(2, 1e300), np.ones(2, "f4")], "an array of float64 was given"),
        ([np.ones(2, "f4")] * 3, "3 inputs given"),
    ],
)
def test_what_does_not_fit_is_said_beside_what_does(feeds: Any, message: str) -> None:
    with pytest.raises(ird.UsageError) as caught:
        ird.compile(adder()).run(feeds)
    assert message in str(caught.value)


def test_arrays_of_another_byte_order_are_converted() -> None:
    swapped = np.array([1, 2], ">f4")
    np.testing.assert_array_equal(ird.compile(adder()).run([swapped, swapped])["out"], [2, 4])


@pytest.mark.parametrize(
    ("tensor", "reason", "hint"),
    [
        (Tensor(error="Can't call numpy()", requires_grad=True), "requires a gradient", "detach()"),
        (Tensor(error="no", layout="torch.sparse_coo"), "it is sparse", "to_dense()"),
        (Tensor(error="no", device="cuda:0"), "it is on the device cuda:0", "cpu()"),
        (Tensor(error="no", device="meta"), "it has a shape but no data", "holds data"),
        (
            Tensor(error="Got unsupported ScalarType", dtype="torch.bfloat16"),
            "no bfloat16",
            "float()",
        ),
        (Tensor(error="no", is_quantized=True), "it is quantized", "dequantize()"),
        (Tensor(error="first line\nsecond"), "first line", None),
        ([[1, 2], [3]], "inhomogeneous", None),
    ],
)
def test_what_cannot_become_an_array_says_why(tensor: Any, reason: str, hint: str | None) -> None:
    with pytest.raises(NoArrayError, match=reason) as caught:
        array_of(tensor)
    assert (hint is None) == (caught.value.hint is None)
    assert (hint or "") in (caught.value.hint or "")
    with pytest.raises(ird.UsageError, match=reason):
        ird.run(HEAD, {"image": tensor})


def test_numbers_and_arrays_are_arrays_lists_are_not() -> None:
    assert all(map(is_array, (1, 2.0, np.float32(3), np.ones(2), Tensor(), Capsule(np.ones(1)))))
    assert not any(map(is_array, ([1], (2,), {"a": 1}, "a", None)))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (IMAGE[0], "array of shape [3,32,32] was given\n   = array[None] adds an axis"),
        (IMAGE[None], "array[0] takes the axis"),
        (IMAGE.transpose(0, 2, 3, 1), "array.transpose([0, 3, 1, 2])"),
        (IMAGE[:, :, :16], "infer(graph, {'image': [1,3,16,32]})"),
        (IMAGE[0, 0, 0], "transpose or reshape the array"),
        (IMAGE.astype(complex), "an array of complex64 was given"),
        (np.array([None] * 3), "lists of unequal lengths, or None among numbers"),
    ],
)
def test_a_misfit_names_what_was_expected_found_and_the_mend(array: Any, message: str) -> None:
    if array.dtype == complex:
        array = array.astype(np.complex64)
    with pytest.raises(ird.UsageError) as caught:
        ird.run(HEAD, array)
    assert 'input "image" f32[1,3,32,32]' in str(caught.value)
    assert message in str(caught.value)


# outputs=[...] -----------------------------------------------------------------------------------


def test_only_what_is_asked_for_is_computed() -> None:
    seen: list[str] = []
    out = ird.run(
        adder(),
        {"a": [-1, 2]},
        None,
        outputs=["left"],
        trace=lambda node, _: seen.append(node.name),
    )
    assert list(out) == ["left"]
    np.testing.assert_array_equal(out["left"], [0, 2])
    assert "sum" not in seen
    assert "b" not in seen


@pytest.mark.parametrize(
    "feeds", [{"a": [1, 2], "b": [3, 4]}, [[1, 2], [3, 4]], [[1, 2]], np.array([1, 2])]
)
def test_what_is_not_needed_may_be_fed_or_not(feeds: Any) -> None:
    np.testing.assert_array_equal(ird.run(adder(), feeds, outputs=["left"])["left"], [1, 2])


def test_outputs_by_output_layer_tensor_and_port() -> None:
    full = ird.run(HEAD, IMAGE)
    names = ["up1", "mask", "conv1/relu", "mask"]
    part = ird.run(HEAD, IMAGE, outputs=names)
    assert list(part) == ["up1", "mask", "conv1/relu"]
    np.testing.assert_allclose(part["mask"], full["mask"], rtol=1e-6)
    # Three names of one tensor, one of them an input's.
    feeds = {"a": [1, 2], "b": [3, 4]}
    same = ird.run(adder(), feeds, outputs=["a", "a:0", "sum", "layer:sum", "sum:0"])
    assert list(same) == ["a", "a:0", "sum", "layer:sum", "sum:0"]
    np.testing.assert_array_equal(same["a"], same["a:0"])
    np.testing.assert_array_equal(same["layer:sum"], [4, 6])


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["uq1"], 'no layer or tensor "uq1"(.|\n)*did you mean "up1"'),
        ([], "outputs names nothing"),
        ("up1", "outputs is a list of names"),
        ([5], "outputs holds 5, which is no name"),
        ([["up1"]], "which is no name"),
    ],
)
def test_outputs_that_are_none(outputs: Any, message: str) -> None:
    with pytest.raises(ird.UsageError, match=message):
        ird.run(HEAD, IMAGE, outputs=outputs)


def test_outputs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.npz"
    assert main(["run", str(HEAD), "image=ones", "--outputs", "up1", "-o", str(file)]) == 0
    assert list(np.load(file)) == ["up1"]
    assert "up1" in capsys.readouterr().out
    assert main(["run", str(HEAD), "image=ones", "--outputs", "no"]) == 2
    assert '--outputs no: the model has no layer or tensor "no"' in capsys.readouterr().err
