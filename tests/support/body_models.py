"""Models with loops and branches, in the text form, with what they compute.

Results are worked by hand or by a few lines of NumPy; `shapes` are those that inference gives.
`peer` says why OpenVINO gives something else or refuses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

X = np.arange(8, dtype=np.float32).reshape(4, 2)
F32 = np.float32


@dataclass(frozen=True)
class BodyModel:
    """A model, what it is fed and what it gives."""

    text: str
    feeds: dict[str, Any]
    outputs: tuple[Any, ...]
    shapes: tuple[str, ...]
    peer: str = ""


def model(nodes: str) -> str:
    """Return the text of a graph."""
    return f'graph 1 "m" {{\n{nodes}}}\n'


def parameter(ident: int, name: str, shape: str, kind: str = "f32") -> str:
    """Return an input."""
    return f'%{ident} "{name}" = opset1.Parameter() {{shape = [{shape}], element_type = {kind}}}\n'


def const(ident: int, value: Any, kind: str = "f32") -> str:
    """Return a constant."""
    array = np.array(value)
    data = ", ".join(str(v).lower() for v in array.reshape(-1).tolist())
    shape = list(array.shape)
    fields = f"shape = {shape}, element_type = {kind}, data = [{data}]"
    return f'%{ident} "c{ident}" = opset1.Const() {{{fields}}}\n'


def node(ident: int, kind: str, *inputs: str | int, more: str = "") -> str:
    """Return a layer: `kind` with its version, as opset1.Add."""
    reads = ", ".join(i if isinstance(i, str) else f"%{i}" for i in inputs)
    return f'%{ident} "n{ident}" = {kind}({reads}) {more}\n'


def results(*values: str | int, first: int = 50) -> str:
    """Return Results."""
    return "".join(node(first + n, "opset1.Result", v) for n, v in enumerate(values))


def body(nodes: str, inputs: str, outputs: str, edges: str = "[]", tag: str = "body") -> str:
    """Return a body."""
    return f"{tag} {{inputs = {inputs}, outputs = {outputs}, edges = {edges}}} {{\n{nodes}}}\n"


def iterator(
    slicing: str, out: str, part: str = "1,2", shape: str = "4,2", feed: Any = X
) -> tuple[str, dict[str, Any]]:
    """Return a TensorIterator that doubles parts of x, and its feeds."""
    inner = parameter(0, "b", part) + const(1, 2.0) + node(2, "opset1.Multiply", 0, 1)
    inner += results(2, first=3)
    text = parameter(0, "x", shape) + node(1, "opset1.TensorIterator", 0)
    text += body(inner, f"[[0, 0, {slicing}]]", f"[[3, 0, {out}]]") + results(1)
    return model(text), {"x": feed}


def loop(
    trip: Any = 3,
    condition: Any = True,
    goes_on: str = "",
    joined: bool = True,
    kind: str = "i64",
    shape: str = "1,2",
) -> str:
    """Return a Loop whose carried value gains the number of the iteration.

    None makes an input `trip` or `condition`; `goes_on` are nodes that compute %9 of %0 and %1.
    """
    inner = parameter(0, "i", "", kind) + parameter(1, "a", shape)
    inner += node(2, "opset1.Convert", 0, more="{destination_type = f32}")
    inner += node(3, "opset1.Add", 1, 2) + (goes_on or const(9, True, "boolean"))
    inner += results(9, 3, first=20)
    text = parameter(0, "x", shape)
    text += parameter(1, "trip", "", "i32") if trip is None else const(1, trip, "i32")
    text += (
        parameter(2, "condition", "", "boolean")
        if condition is None
        else const(2, condition, "boolean")
    )
    text += node(3, "opset5.Loop", 1, 2, 0)
    outputs = "[20, none, none, true], [21, 0]" + ", [21, 1, [0]]" * joined
    text += body(inner, "[[0, none, none, true], [1, 2]]", f"[{outputs}]", "[[21, 1]]")
    return model(text + results(3, *["%3#1"] * joined))


def runs(count: int, first: Any) -> tuple[Any, Any]:
    """Return the last value of `loop` and all of them joined."""
    rows = [np.asarray(first, F32) + F32(n * (n + 1) // 2) for n in range(count)]
    joined = np.concatenate(rows) if rows else np.zeros((0, 2), F32)
    return (rows[-1] if rows else np.asarray(first, F32)), joined


def branch(condition: str, other: str = "1,2") -> str:
    """Return an If: the sum with a constant, or one column of x twice."""
    then = parameter(0, "p", "1,2") + const(1, [[10.0, 20.0]]) + node(2, "opset1.Add", 0, 1)
    then = body(then + results(2, first=3), "[[0, 1]]", "[[3, 0]]", tag="then_body")
    turn = parameter(0, "q", "1,2") + const(1, [2, 1], "i64")
    turn += node(2, "opset1.Reshape", 0, 1, more="{special_zero = false}")
    plain = parameter(0, "q", "1,2") + node(2, "opset1.Negative", 0)
    other = body((plain if other == "1,2" else turn) + results(2, first=3), "[[0, 1]]", "[[3, 0]]",
                 tag="else_body")  # fmt: skip
    text = condition + parameter(1, "x", "1,2") + node(2, "opset8.If", 0, 1) + then + other
    return model(text + results(2))


ONE = np.array([[1, 2]], F32)
DOUBLED = 2 * X


def less(bound: int) -> str:
    """Return: the number of the iteration is below a bound."""
    return const(7, bound, "i64") + node(9, "opset1.Less", 0, 7)


def nested() -> BodyModel:
    """A Loop in a branch in a TensorIterator: rows of x, doubled twice where they sum above 5."""
    inner = parameter(0, "v", "1,2") + node(1, "opset1.Add", 0, 0) + const(2, True, "boolean")
    inner = body(inner + results(2, 1, first=5), "[[0, 2]]", "[[5, none, none, true], [6, 0]]",
                 "[[6, 0]]")  # fmt: skip
    then = parameter(0, "p", "1,2") + const(1, 2, "i64") + const(2, True, "boolean")
    then += node(3, "opset5.Loop", 1, 2, 0) + inner + results(3, first=6)
    other = parameter(0, "q", "1,2") + results(0, first=6)
    middle = parameter(0, "row", "1,2") + const(1, [0, 1], "i64") + const(2, 5.0)
    middle += node(3, "opset1.ReduceSum", 0, 1) + node(4, "opset1.Greater", 3, 2)
    middle += node(5, "opset8.If", 4, 0)
    middle += body(then, "[[0, 1]]", "[[6, 0]]", tag="then_body")
    middle += body(other, "[[0, 1]]", "[[6, 0]]", tag="else_body") + results(5, first=8)
    text = parameter(0, "x", "4,2") + node(1, "opset1.TensorIterator", 0)
    text += body(middle, "[[0, 0, [0]]]", "[[8, 0, [0]]]") + results(1)
    want = np.where(X.sum(1, keepdims=True) > 5, 4 * X, X)
    return BodyModel(model(text), {"x": X}, (want,), ("f32[4,2]",))


def growing(trip: Any) -> str:
    """Return a Loop whose carried value doubles its rows."""
    inner = parameter(0, "a", "?,2") + node(1, "opset1.Concat", 0, 0, more="{axis = 0}")
    inner += const(2, True, "boolean") + results(2, 1, first=5)
    text = parameter(0, "x", "1,2") + const(2, True, "boolean")
    text += parameter(1, "trip", "", "i32") if trip is None else const(1, trip, "i32")
    text += node(3, "opset5.Loop", 1, 2, 0)
    text += body(inner, "[[0, 2]]", "[[5, none, none, true], [6, 0]]", "[[6, 0]]")
    return model(text + results(3))


def invariant() -> BodyModel:
    """Each row plus a tensor that stays, and the sum so far."""
    inner = parameter(0, "row", "1,2") + parameter(1, "stays", "2") + parameter(2, "sum", "1,2")
    inner += node(3, "opset1.Add", 0, 1) + node(4, "opset1.Add", 2, 0) + results(3, 4, first=6)
    text = parameter(0, "x", "4,2") + parameter(1, "w", "2") + const(2, [[0.0, 0.0]])
    text += node(3, "opset1.TensorIterator", 0, 1, 2)
    text += body(inner, "[[0, 0, [0]], [1, 1], [2, 2]]", "[[6, 1, [0]], [7, 0]]", "[[7, 2]]")
    w = np.array([10, 20], F32)
    return BodyModel(
        model(text + results(3, "%3#1")),
        {"x": X, "w": w},
        (X.sum(0, keepdims=True), X + w),
        ("f32[1,2]", "f32[4,2]"),
    )


def iterated(
    slicing: str, out: str, want: Any, given: str, peer: str = "", **more: Any
) -> BodyModel:
    """Return a model of `iterator`."""
    text, feeds = iterator(slicing, out, **more)
    return BodyModel(text, feeds, (np.asarray(want, F32),), (given,), peer)


def looped(count: int, shapes: Sequence[str], peer: str = "", **how: Any) -> BodyModel:
    """Return a model of `loop` that runs `count` times."""
    feeds: dict[str, Any] = {"x": ONE}
    for name in ("trip", "condition"):
        value = how.pop(f"{name}_fed", None)
        if value is not None:
            how[name] = None
            feeds[name] = np.array(value, np.int32 if name == "trip" else bool)
    last, joined = runs(count, ONE)
    outputs = (last, joined) if how.get("joined", True) else (last,)
    return BodyModel(loop(**how), feeds, outputs, tuple(shapes), peer)


def state(
    init: str = "", reads: str = "()", shape: str = "1, 2", old: bool = False, x: str = "1, 2"
) -> str:
    """Return: y = value + x, which is assigned."""
    named = 'variable_id = "v"'
    own = named if old else f"{named}, variable_shape = [{shape}], variable_type = f32"
    version = "opset3" if old else "opset6"
    text = parameter(0, "x", x) + init
    text += f'%3 "read" = {version}.ReadValue{reads} {{{own}}}\n'
    text += '%4 "sum" = opset1.Add(%3, %0)\n'
    text += f'%5 "keep" = {version}.Assign(%4) {{{named}}}\n'
    return model(text + results(4))


def _branches() -> dict[str, BodyModel]:
    choice = parameter(0, "c", "", "boolean")
    then, other, turned = ONE * F32(11), -ONE, ONE.reshape(2, 1)
    same, unlike = branch(choice), branch(choice, "2,1")
    on, off = ({"x": ONE, "c": np.array(c)} for c in (True, False))
    known = branch(const(0, True, "boolean"), "2,1")
    either = ("f32[1..2,1..2]",)
    return {
        "if true": BodyModel(same, on, (then,), ("f32[1,2]",)),
        "if false": BodyModel(same, off, (other,), ("f32[1,2]",)),
        "if shapes differ, true": BodyModel(unlike, on, (then,), either),
        "if shapes differ": BodyModel(unlike, off, (turned,), either),
        "if constant": BodyModel(known, {"x": ONE}, (then,), ("f32[1,2]",)),
    }


STRIDE = "it refuses to join parts that are larger than the stride"
MEMORY = "it gives what the memory of three parts holds"
MODELS: dict[str, BodyModel] = {
    "parts": iterated("[0]", "[0]", DOUBLED, "f32[4,2]"),
    "parts of two": iterated(
        "[0, 0, -1, 2, 2]", "[0, 0, -1, 2, 2]", DOUBLED, "f32[4,2]", part="2,2"
    ),
    "backwards": iterated("[0, -1, 0, -1]", "[0]", DOUBLED[::-1], "f32[4,2]"),
    "backwards and back": iterated("[0, -1, 0, -1]", "[0, -1, 0, -1]", DOUBLED, "f32[4,2]"),
    "twos backwards": iterated(
        "[0, -1, 0, -2, 2]", "[0, 0, -1, 2, 2]", DOUBLED[[2, 3, 0, 1]], "f32[4,2]", part="2,2"
    ),
    "to the last but one": iterated("[0, 0, -2]", "[0]", DOUBLED[:3], "f32[3,2]"),
    "start that only counts": iterated("[0, 1, -1]", "[0]", DOUBLED[:3], "f32[3,2]"),
    "columns": iterated("[1]", "[1]", DOUBLED, "f32[4,2]", part="4,1"),
    "columns from the right": iterated("[-1]", "[-1]", DOUBLED, "f32[4,2]", part="4,1"),
    "joined elsewhere": iterated("[0]", "[1]", DOUBLED.reshape(1, 8), "f32[1,8]", STRIDE),
    "last part": iterated("[0]", "none", DOUBLED[3:], "f32[1,2]"),
    "open": iterated("[0]", "[0]", DOUBLED, "f32[?,2]", shape="?,2"),
    "no part": iterated(
        "[0]", "[0]", np.zeros((0, 2)), "f32[?,2]", "it wants a part", shape="?,2", feed=X[:0]
    ),
    "carried": invariant(),
    "three times": looped(3, ("f32[1,2]", "f32[3,2]")),
    "no time": looped(0, ("f32[1,2]",), trip=0, joined=False),
    "no time, fed": looped(0, ("f32[1,2]", "f32[?,2]"), trip_fed=0),
    "twice, fed": looped(2, ("f32[1,2]", "f32[?,2]"), trip_fed=2),
    "while": looped(3, ("f32[1,2]", "f32[1..,2]"), trip=-1, goes_on=less(2)),
    "while, at most": looped(2, ("f32[1,2]", "f32[1..2,2]"), trip=2, goes_on=less(5)),
    "once": looped(1, ("f32[1,2]", "f32[1,2]"), trip=5, goes_on=const(9, False, "boolean")),
    "counted in i32": looped(3, ("f32[1,2]", "f32[3,2]"), kind="i32"),
    "condition fed": looped(3, ("f32[1,2]", "f32[..3,2]"), condition_fed=True),
    "condition fed, false": looped(0, ("f32[1,2]", "f32[..3,2]"), MEMORY, condition_fed=False),
    "growing": BodyModel(growing(3), {"x": ONE}, (np.repeat(ONE, 8, 0),), ("f32[2..,2]",)),
    "growing, fed": BodyModel(
        growing(None), {"x": ONE, "trip": np.array(6, np.int32)}, (np.repeat(ONE, 64, 0),),
        ("f32[1..,2]",),
    ),
    "growing, not": BodyModel(
        growing(None), {"x": ONE, "trip": np.array(0, np.int32)}, (ONE,), ("f32[1..,2]",)
    ),
    "nested": nested(),
    **_branches(),
}  # fmt: skip
