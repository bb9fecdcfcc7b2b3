"""Plans: feeds, order of outputs, freeing, tracing, errors that name the layer."""

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Opaque
from irdeconv.ops.elementwise import Add, Multiply
from irdeconv.ops.shape import Reshape
from support.layers import constant, parameter, result


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


@pytest.mark.parametrize(
    ("feeds", "text"),
    [([A], "1 input given; the model has 2 inputs: first f32[2,?], b f32[2,?]"),
     ({"a": A}, '"b" f32[2,?] is missing'),
     ({"a": A, "bb": B}, 'no input "bb"'),
     ({"a": A[0], "b": B}, 'input "a" f32[2,?]: an array of shape [3] was given'),
     ({"a": A, "b": np.zeros((3, 3), np.float32)}, "an array of shape [3,3] was given"),
     ({"a": A.astype(complex), "b": B}, "complex128"),
     ({"a": np.zeros((2, 3), "V4"), "b": B}, "would change values"),
     ({"a": A.astype(np.float64) * 1e300, "b": B}, "would change values"),
     ({"a": A, 1: B}, 'no input "1"')],
)  # fmt: skip
def test_inputs_that_do_not_fit(feeds, text):
    with pytest.raises(ird.UsageError) as e:
        ird.run(model(), feeds)
    assert text in str(e.value)
    assert e.value.exit_code == 2


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
    x = parameter(g, (2, 3), np.float32, "x")
    result(g, x)
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
    g = Graph()
    x = parameter(g, (2,), np.float32, "x")
    c = Value(g.add(Add(), [constant(g, A[0, :2], "p"), constant(g, B[0, :2], "q")], name="c").id)
    result(g, Value(g.add(Add(), [x, c], name="y").id))
    plan = ird.compile(g, None)
    assert [s.node.name for s in plan.steps] == ["y"]
    np.testing.assert_array_equal(plan.run([B[0, :2]])["y"], A[0, :2] + 2)


def test_a_failing_layer_is_named_with_its_inputs():
    g = Graph()
    x = parameter(g, (None,), np.float32, "x")
    shape = parameter(g, (2,), np.int64, "shape")
    result(g, Value(g.add(Reshape(special_zero=False), [x, shape], name="fold").id))
    with pytest.raises(ird.ExecutionError) as e:
        ird.run(g, [np.zeros(5, np.float32), np.array([2, 3])])
    text = str(e.value)
    assert 'Reshape "fold"' in text
    assert "float32[5]" in text
    assert e.value.diagnostics[0].layer == "fold"


def test_all_unsupported_operations_are_listed():
    g = Graph()
    x = parameter(g, (2,), np.float32, "x")
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
    g = Graph()
    x = parameter(g, (2, 3), np.float32, "x")
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
