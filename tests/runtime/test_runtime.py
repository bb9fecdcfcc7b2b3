"""Running graphs, and what is fed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Opaque, Parameter, Result
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.ops.movement import Reshape
from irdeconv.runtime.feeds import NoArrayError, array_of, is_array
from support.layers import begun, constant, parameter, result
from support.rows import each_row

# Plans: feeds, order of outputs, freeing, tracing, errors that name the layer.


def model() -> Graph:
    """y = relu(a + b) of f32[2,?], z = a * 2."""
    g = Graph()
    a, b = parameter(g, (2, None), np.float32, "a"), parameter(g, (2, None), np.float32, "b")
    g.node(a.node).tensor_names = (("first", "also_first"),)
    total = Value(g.add(Add(), [a, b], name="sum").id)
    y = Value(g.add(ReLU(), [total], name="relu").id)
    two = constant(g, np.float32(2), "two")
    z = Value(g.add(Multiply(), [a, two], name="double").id)
    result(g, y, "y")
    result(g, z, "z")
    return g


A = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
B = np.array([[1, 1, 1], [1, 1, 1]], np.float32)


def check(outs):
    assert list(outs) == ["y", "z"]
    np.testing.assert_array_equal(outs["y"], np.maximum(A + B, 0))
    np.testing.assert_array_equal(outs["z"], 2 * A)


@pytest.mark.parametrize(
    "feeds",
    [[A, B], {"a": A, "b": B}, {"first": A, "b": B}, {"also_first": A.tolist(), "b": B},
     (A.astype(np.float64), B.astype(np.int32))],
)  # fmt: skip
def test_inputs_by_name_position_and_convertible_type(feeds):
    check(ird.run(model(), feeds))


def test_a_plan_runs_again_with_other_sizes():
    plan = ird.compile(model(), None)
    check(plan.run([A, B]))
    assert plan.run([A[:, :1], B[:, :1]])["y"].shape == (2, 1)


def test_an_input_of_unknown_version():
    g = model()
    spec = Spec(g.parameters[0].op.element_type, (2,))
    g.add(Opaque("Parameter", "opset99", declared=(spec,)), name="odd")
    given = {"a": A, "b": B, "odd": A[:, 0]}
    with pytest.raises(ird.UsageError, match="unknown version opset99"):
        ird.infer(g, {"odd": [2]})
    check(ird.run(g, given))
    with pytest.raises(ird.UsageError, match="odd"):
        ird.run(g, given | {"odd": A})


def test_an_integer_input_is_never_rounded():
    g = Graph()
    result(g, parameter(g, (2,), np.int64, "i"))
    assert ird.run(g, [np.array([1.0, 2.0])])["y"].dtype == np.int64
    with pytest.raises(ird.UsageError, match="would change values"):
        ird.run(g, [np.array([1.5, 2.0])])


def test_every_problem_of_the_inputs_is_reported():
    with pytest.raises(ird.UsageError) as e:
        ird.run(model(), {"a": A[0], "b": B[0]})
    assert len(e.value.diagnostics) == 2


def test_outputs_belong_to_the_caller():
    plan = ird.compile(model(), None)
    first = plan.run([A, B])
    first["z"][:] = 99
    check(plan.run([A, B]))
    g = Graph()
    result(g, parameter(g, (2, 3), np.float32, "x"))
    data = A.copy()
    ird.run(g, [data])["y"][:] = 0
    np.testing.assert_array_equal(data, A)


def test_trace_sees_every_node_in_order():
    seen = []
    ird.run(model(), [A, B], trace=lambda node, arrays: seen.append((node.name, arrays[0].shape)))
    names = [n for n, _ in seen]
    assert set(names) == {"a", "b", "sum", "relu", "two", "double"}
    assert names.index("sum") < names.index("relu")


def test_values_are_freed_at_their_last_use():
    program = ird.compile(model(), None, fuse=False).program([A, B])
    by_name = {s.node.name: s for s in program.steps}
    assert by_name["relu"].inputs[0] in by_name["relu"].frees
    freed = [slot for s in program.steps for slot in s.frees]
    assert len(freed) == len(set(freed))
    assert not set(freed) & {slot for _, slot in program.results}


def test_constant_subgraphs_are_computed_once():
    g, x = begun((2,))
    c = Value(g.add(Add(), [constant(g, A[0, :2], "p"), constant(g, B[0, :2], "q")], name="c").id)
    result(g, Value(g.add(Add(), [x, c], name="y").id))
    plan = ird.compile(g, None)
    assert [s.node.name for s in plan.steps] == ["y"]
    np.testing.assert_array_equal(plan.run([B[0, :2]])["y"], A[0, :2] + 2)


def test_a_failing_layer_is_named_with_its_inputs():
    g, x = begun((None,))
    shape = parameter(g, (2,), np.int64, "shape")
    result(g, Value(g.add(Reshape(special_zero=False), [x, shape], name="fold").id))
    with pytest.raises(ird.ExecutionError) as e:
        ird.run(g, [np.zeros(5, np.float32), np.array([2, 3])])
    text = str(e.value)
    assert 'Reshape "fold"' in text
    assert "float32[5]" in text
    assert e.value.diagnostics[0].layer == "fold"


def test_all_unsupported_operations_are_listed():
    g, x = begun((2,))
    for name in ("one", "two"):
        op = Opaque("Mystery", "opset9", declared=(Spec.of(A[0]).without_value(),))
        x = Value(g.add(op, [x], name=name).id)
    result(g, x)
    with pytest.raises(ird.UnsupportedError) as e:
        ird.compile(g, None)
    assert [d.layer for d in e.value.diagnostics] == ["one", "two"]
    assert e.value.exit_code == 4


def test_layers_that_no_result_needs_are_not_run():
    g = model()
    g.add(Opaque("Mystery", "opset9"), [Value(0)], name="dead")
    check(ird.run(g, [A, B]))


def test_outputs_of_one_tensor_get_names_of_their_own():
    g, x = begun((2, 3))
    result(g, x, "y")
    result(g, x, "y")
    assert list(ird.run(g, [A])) == ["y", "y.1"]


class Hungry(ReLU):
    """A layer that memory does not suffice for."""

    def evaluate(self, data):
        raise MemoryError("Unable to allocate 1 TiB")


def test_lack_of_memory_is_a_limit_and_names_the_layer():
    g = Graph()
    result(g, Value(g.add(Hungry(), [parameter(g, (2,), np.float32, "x")], name="big").id))
    with pytest.raises(ird.LimitError) as e:
        ird.run(g, [A[0, :2]], fuse=False)
    assert (e.value.diagnostics[0].code, e.value.diagnostics[0].layer) == ("E602", "big")
    assert e.value.exit_code == 5


def test_running_does_not_walk_the_graph(monkeypatch):
    plan = ird.compile(model(), None)
    check(plan.run([A, B]))  # an open shape is compiled for when it is met first

    def walked(*_):
        raise AssertionError("the graph was walked")

    for name in ("nodes", "topological", "inputs_of", "users"):
        monkeypatch.setattr(Graph, name, walked)
    check(plan.run({"first": A, "b": B}))
    check(plan.run([A, B]))


# What models are fed: one array, names of tensors, arrays of other packages; asked outputs.

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
    ways = IMAGE, [IMAGE], (IMAGE,), Tensor(IMAGE), Capsule(IMAGE), {"image": Tensor(IMAGE)}
    for given in ways:
        np.testing.assert_allclose(ird.run(HEAD, given)["mask"], expected, rtol=1e-6)
    np.testing.assert_allclose(ird.compile(HEAD).run(IMAGE)["mask"], expected, rtol=1e-6)


ONE = np.ones(2, "f4")


@each_row(
    ("graph", "feeds", "text"),
    [
        (model, [A], "1 input given; the model has 2 inputs: first f32[2,?], b f32[2,?]"),
        (model, {"a": A}, '"b" f32[2,?] is missing'),
        (model, {"a": A, "bb": B}, 'no input "bb"'),
        (model, {"a": A[0], "b": B}, 'input "a" f32[2,?]: an array of shape [3] was given'),
        (model, {"a": A, "b": np.zeros((3, 3), "f4")}, "an array of shape [3,3] was given"),
        (model, {"a": A.astype(complex), "b": B}, "complex128"),
        (model, {"a": np.zeros((2, 3), "V4"), "b": B}, "would change values"),
        (model, {"a": A.astype(np.float64) * 1e300, "b": B}, "would change values"),
        (model, {"a": A, 1: B}, 'no input "1"'),
        (adder, np.ones(2), "a single array is given; the model has 2 inputs: a:0 f32[2], b:0 f32"),
        (adder, Tensor(np.ones(2)), "a single array is given"),
        (adder, [np.ones(2)], "1 input given; the model has 2 inputs"),
        (adder, {}, 'input "a" f32[2] is missing'),
        (adder, {}, 'input "b" f32[2] is missing'),
        (adder, "a", "inputs are arrays by name, arrays in order or an array, not a str"),
        (adder, None, "not a NoneType"),
        (adder, {"a:0": ONE, "b:0": ONE, "c": 0}, 'no input "c"'),
        (adder, {"a:0": ONE, "c": ONE}, 'no input "c"'),
        (adder, [ONE, np.ones((1, 2), "f4")], "shape [1,2] was given"),
        (adder, [np.full(2, 1e300), ONE], "an array of float64 was given"),
        (adder, [ONE] * 3, "3 inputs given"),
    ],
)
def test_inputs_that_do_not_fit(graph: Any, feeds: Any, text: str) -> None:
    for run in (lambda: ird.run(graph(), feeds), lambda: ird.compile(graph()).run(feeds)):
        with pytest.raises(ird.UsageError) as caught:
            run()
        assert text in str(caught.value)
        assert caught.value.exit_code == 2


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


def test_arrays_of_another_byte_order_are_converted() -> None:
    swapped = np.array([1, 2], ">f4")
    np.testing.assert_array_equal(ird.compile(adder()).run([swapped, swapped])["out"], [2, 4])


@each_row(
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


@each_row(
    ("array", "message"),
    [
        (IMAGE[None], "array[0] takes the axis"),
        (IMAGE[:, :, :16], 'infer(model, {"image": [1,3,16,32]})'),
        (IMAGE[0, 0, 0], "the model wants 3072 numbers, the array has 32"),
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
    trace = lambda node, _: seen.append(node.name)  # noqa: E731
    out = ird.run(adder(), {"a": [-1, 2]}, None, outputs=["left"], trace=trace)
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
    part = ird.run(HEAD, IMAGE, outputs=["up1", "mask", "conv1/relu", "mask"])
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
        (["uq1"], '"uq1": the model has no such layer or tensor(.|\n)*did you mean "up1"'),
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
    assert '--outputs "no": the model has no such layer or tensor' in capsys.readouterr().err


def test_a_view_larger_than_memory_is_planned() -> None:
    text = """graph 1 "g" {
      %0 "x" = opset1.Parameter() {shape = [1048576, 65536, 4], element_type = f32}
      %1 "order" = opset1.Const() {element_type = i64, shape = [3], data = [2, 1, 0]}
      %2 "turned" = opset1.Transpose(%0, %1)
      %3 "shape" = opset1.Const() {element_type = i64, shape = [1], data = [-1]}
      %4 "flat" = opset1.Reshape(%2, %3)
      %5 "y" = opset1.Result(%4)
    }"""
    assert ird.compile(ird.infer(ird.parse(text)), max_memory=None).steps is not None
