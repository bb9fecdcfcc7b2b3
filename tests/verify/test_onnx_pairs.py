"""Pairs of ONNX models, equal ones and near misses, as ONNX Runtime computes them."""

import re
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper, version_converter

import irdeconv as ird
from support.rows import each_row

HEAD = '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1, "d": 1]>\n'
UP = "u = ConvTranspose <strides: ints = [2, 2]> (x, w)"
W = "float[2, 1, 2, 2] w = {1, 2, 3, 4, 5, -6, 7, 9}"


def model(text: str, *functions: str) -> Any:
    """A model: inputs => outputs ; stored tensors ;; nodes."""
    ends, _, rest = text.partition(";")
    first, last = (f"({part.strip()})" for part in ends.split("=>"))
    stored, _, nodes = rest.rpartition(";;")
    graph = f"g {first} => {last} {f'<{stored}>' if stored else ''} {{ {nodes} }}"
    made = onnx.parser.parse_model(HEAD + graph)
    heads = ('<domain: "d", opset_import: ["": 17, "d": 1]> ' + f for f in functions)
    made.functions.extend(map(onnx.parser.parse_function, heads))
    return made


def session_of(made: Any, level: str, folder: Any = None) -> Any:
    """A session, whose optimized model may be written into a folder."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    if folder is not None:
        options.optimized_model_filepath = str(folder / "optimized.onnx")
    return onnxruntime.InferenceSession(made.SerializeToString(), options)


def results(made: Any) -> list[Any] | None:
    """What ONNX Runtime computes of numbers that are all different; None of an invalid model."""
    try:
        session = session_of(made, "ORT_DISABLE_ALL")
        feeds = {}
        for item in session.get_inputs():
            shape = [d if isinstance(d, int) else 3 for d in item.shape]
            feeds[item.name] = np.arange(-7, np.prod(shape) - 7, dtype=np.float32).reshape(shape)
        names = [o.name for o in session.get_outputs()]
        more = [i.name for i in session.get_overridable_initializers()]
        return [names, more, *session.run(None, feeds)]
    except Exception:
        return None


def require(a: Any, b: Any, equal: bool) -> None:
    """ONNX Runtime says whether a row is right, the check must say the same."""
    mine, theirs = results(a), results(b)
    assert mine is not None
    same = theirs is not None and all(map(np.array_equal, mine, theirs))
    assert same == equal
    verdict = ird.check_onnx(a, b)
    assert verdict.passed == equal, str(verdict)


X, Y = "float[1, 2, 4, 5] x", "float[N, M, H, W] y"
FUNCTION = """Up <strides, alpha: float = 0.5> (x, w) => (y) {
    u = ConvTranspose <strides: ints = @strides> (x, w) y = LeakyRelu <alpha: float = @alpha> (u)
}"""
CALL = f"{X} => {Y}; {W};; y = d.Up <strides: ints = [2, 2]> (x, w)"
OUTER = """Out <s, a: float = 0.25> (x, w) => (y) {
    y = d.Up <strides: ints = @s, alpha: float = @a> (x, w)
}"""
PLAIN = f"{X} => {Y}; {W};; {UP} y = LeakyRelu <alpha: float = 0.5> (u)"


@each_row(("b", "functions", "equal"), {
    "inlined": (PLAIN, (), True),
    "another stride": (PLAIN.replace("[2, 2]> (x", "[1, 1]> (x"), (), False),
    "another default": (CALL, (FUNCTION.replace("0.5", "0.25"),), False),
    "a default is given": (CALL.replace("2]>", "2], alpha: float = 0.25>"), (FUNCTION,), False),
    "through a second function": (CALL.replace("Up <strides", "Out <s"), (FUNCTION, OUTER), False),
    "with the right default": (
        CALL.replace("Up <strides", "Out <s"), (FUNCTION, OUTER.replace("0.25", "0.5")), True,
    ),
})  # fmt: skip
def test_attributes_by_reference(b: str, functions: tuple[str, ...], equal: bool) -> None:
    require(model(CALL, FUNCTION), model(b, *functions), equal)


# ONNX Runtime has these operations, irdeconv does not; the shape behind them is only declared.
OPAQUE = "g = com.microsoft.Trilu (x)"


@each_row(("a", "b"), {
    "flattened": ("Flatten <axis: int = 2> (g)", "Reshape (g, s)"),
    "reshaped": ("Reshape (g, t)", "Reshape (g, s)"),
    "a shape": ("Cast <to: int = 1> (n)", "Cast <to: int = 1> (m)"),
    "resized": ("Expand (g, k)", "Expand (g, l)"),
    "sliced": ("Slice (g, o, e)", "Identity (g)"),
})  # fmt: skip
def test_a_declared_shape_that_is_not_so(a: str, b: str) -> None:
    stored = """int64[2] s = {2, 20}, int64[2] t = {-1, 4}, int64[4] k = {1, 2, 4, 5},
        int64[4] l = {3, 2, 4, 5}, int64[1] o = {0}, int64[1] e = {2}, int64[4] m = {1, 2, 5, 4}"""
    head = f"float[3, 2, 4, 5] x => float y; {stored};; {OPAQUE} n = Shape (g)"
    models = [model(f"{head} y = {end}") for end in (a, b)]
    for made in models:
        made.graph.output[0].type.tensor_type.ClearField("shape")
        made.graph.value_info.append(onnx.helper.make_tensor_value_info("g", 1, [1, 2, 5, 4]))
    assert not ird.check_onnx(*models).passed


CEIL = "ceil_mode: int = 1"


@each_row("node", {
    "MaxPool": f"MaxPool <{CEIL}, kernel_shape: ints = [1, 1], strides: ints = [2, 1]> (x)",
    "AveragePool": f"AveragePool <{CEIL}, kernel_shape: ints = [1, 1], strides: ints = [2, 3]> (x)",
    "dilated": f"MaxPool <{CEIL}, kernel_shape: ints = [2, 2], dilations: ints = [3, 2]> (x)",
    "Resize": 'Resize <mode: string = "nearest"> (x, , r)',
    "SAME": 'ConvTranspose <auto_pad: string = "SAME_UPPER", strides: ints = [3, 3]> (x, v)',
})  # fmt: skip
def test_sizes_that_are_easily_got_wrong(node: str) -> None:
    """What is lowered for these sizes is right; a Reshape to one element more or less is not."""
    v = "float[2, 2, 2, 2] v = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}"
    stored, x = f"{W}, {v}, float[4] r = {{1, 1, 1.3, 0.7}}", "float[1, 2, 5, 7] x"
    head = f"{x} => {Y}; {stored}"
    made = model(f"{head};; p = {node} {UP.replace('(x', '(p')} y = Relu (u)")
    for form in ("zero-insertion", "stacked", "phases"):
        require(made, ird.lower_onnx(made, form=form).proto, equal=True)
    right = results(model(f"{head};; y = {node}"))
    assert right is not None
    size = right[2].size
    flat = f"{x} => float[N, M] y; {stored}"
    a = model(f"{flat};; p = {node} y = Flatten <axis: int = 0> (p)")
    for more in (0, 1, -2):
        text = f"{flat}, int64[2] s = {{1, {size + more}}};; p = {node} y = Reshape (p, s)"
        require(a, model(text), equal=not more)


@each_row(("node", "number"), {
    "out of range": ("Cast <to: int = 3> (k)", 44),
    "saturated": ("Cast <to: int = 3> (k)", 127),
    "last place": ("Cast <to: int = 7> (e)", 1),
    "decided": ("Less (e, e)", 0),
})  # fmt: skip
def test_constants_that_runtimes_fold_in_their_own_way(node: str, number: int) -> None:
    nodes = f"e = Exp (z) i = {node} f = Cast <to: int = 1> (i) y = Add (x, f)"
    a = model(f"{X} => {Y}; double k = {{300.2}}, float z = {{0}};; {nodes}")
    b = model(f"{X} => {Y}; float f = {{{number}}};; y = Add (x, f)")
    assert not ird.check_onnx(a, b).passed


@pytest.mark.parametrize("at", [2**31, 2**32, 4, -5])
def test_an_index_outside_of_the_axis(at: int) -> None:
    """OpenVINO takes 0, which keeps an axis in a Reshape; ONNX has no such element."""
    text = """float[N, 2, 4, 5] x => float[A, B] y; int64[1] i = {AT}, int64[1] r = {-1};;
        s = Shape (x) n = Gather (s, i) t = Concat <axis: int = 0> (n, r) y = Reshape (x, t)"""
    first, second = (model(text.replace("AT", str(k))) for k in (0, at))
    require(first, second, equal=False)


AGAIN = "s = Shape (x) v = {} (s) y = Reshape (x, v)"
BRANCHES = """y = If (t) <then_branch = a () => (float[1, 2, 4, 5] i) { i = Identity (x) },
    else_branch = b () => (float[1, 2, 4, 5] j) { j = Neg (x) }>"""
AS_I16 = "s = Shape (x) n = Cast <to: int = 5> (s) m = Where (t, n, n) v = Cast <to: int = 7> (m)"


@each_row(("a", "b"), {
    "Resize of i64": (AGAIN, AGAIN.replace("{} (s)", 'Resize <mode: string = "nearest"> (s, , r)')),
    "Relu of i64": (AGAIN, AGAIN.replace("{}", "Relu")),
    "Where of i16": (AGAIN, f"{AS_I16} y = Reshape (x, v)"),
    "dilations": (
        "y = Conv (x, k)",
        'y = Conv <auto_pad: string = "SAME_LOWER", dilations: ints = [1, 2]> (x, k)',
    ),
    "a scalar": ("y = ReduceSum (x, q)", "y = ReduceSum (x, p)"),
    "a bias": ("u = Conv (x, k) y = Add (u, r)", "y = Conv (x, k, r)"),
    "a ratio": ("y = Identity (x)", "y = Dropout (x, o)"),
    "no order": ("y = Transpose (x)", "y = Transpose <perm: ints = []> (x)"),
    "an output from outside": (BRANCHES, BRANCHES.replace("i) { i = Identity (x) }", "x) {}")),
    "an unknown operation": (BRANCHES, BRANCHES.replace("Neg", "Mystery")),
})  # fmt: skip
def test_what_onnx_runtime_lacks(a: str, b: str) -> None:
    """It would compute the same; what lacks on both sides decides nothing."""
    head = f"""{X} => float y; float[1] r = {{1}}, float[2, 2, 1, 1] k = {{1, 2, 3, 4}},
        float o = {{1}}, int64[1] q = {{1}}, int64 p = {{1}}, bool t = {{1}};;"""
    models = [model(f"{head} {node.replace('{} (s)', 'Identity (s)')}") for node in (a, b)]
    for made in models:
        made.graph.output[0].type.tensor_type.ClearField("shape")
    require(*models, equal=False)
    assert ird.check_onnx(models[1], models[1]).passed
    assert ird.check_onnx(*models[::-1]).passed


ENDS = {"X": X, "Y": Y, "P": "float[N, 3, H] x", "Q": "float[A, B] y"}
ENDS["K"] = f"{X} => {Y}; float[2, 2, 1, 1] k = {{1, 2, 3, 4}}"
ENDS["G"] = "float[3, 2] x => float[3, 2] y; float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, 6}"
PAIRS = Path(__file__).with_name("onnx_pairs.txt").read_text("utf-8")
BLOCKS = Template(PAIRS).substitute(ENDS).split("# ")[1:]


@each_row(("a", "b", "near"), [re.split("\n(?:one|two|near): ", b)[1:] for b in BLOCKS])
def test_what_optimizers_write(a: str, b: str, near: str) -> None:
    require(model(a), model(b), equal=True)
    require(model(a), model(near), equal=False)


NET = f"""{X} => {Y}; {W};; i = Identity (x) {UP.replace("(x", "(i")} c = Shape (u)
    v = Reshape (u, c) y = Relu (v)"""


@pytest.mark.parametrize("tool", ["basic", "extended", "shapes", "versions"])
def test_what_tools_write(tool: str, tmp_path: Any) -> None:
    made = model(NET)
    if tool == "shapes":
        other = onnx.shape_inference.infer_shapes(made)
    elif tool == "versions":
        del made.opset_import[1:]
        other = version_converter.convert_version(made, 21)
    else:
        session_of(made, f"ORT_ENABLE_{tool.upper()}", tmp_path)
        other = onnx.load(tmp_path / "optimized.onnx")
    require(made, other, equal=True)
    weights = next(t for t in other.graph.initializer if t.name == "w")
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights)[::-1].copy(), "w"))
    require(made, other, equal=False)


def test_what_decides_nothing_and_what_does() -> None:
    """Texts, unused imports and a right shape are as good as none; a wrong type is not."""
    made, other = model(PLAIN), model(PLAIN)
    other.producer_name, other.doc_string, other.graph.name = "tool", "text", "another"
    other.metadata_props.add(key="a", value="b")
    other.opset_import.add(domain="ai.onnx.ml", version=3)
    other.graph.node[0].name = "renamed"
    other.graph.value_info.append(onnx.helper.make_tensor_value_info("u", 1, [1, 1, 8, 10]))
    require(made, other, equal=True)
    for element, shape in ((TensorProto.INT64, [1, 1, 8, 10]), (1, [1, 1, 8])):
        other.graph.value_info[0].CopyFrom(onnx.helper.make_tensor_value_info("u", element, shape))
        assert not ird.check_onnx(made, other).passed


def test_sizes_beyond_64_bits() -> None:
    text = """float[N, 2] x => float[A, B] y; int64[1] i = {0}, int64[1] k = {4611686018427387904};;
        s = Shape (x) n = Gather (s, i) p = Mul (n, k) q = Mul (p, k) r = Add (n, q)
        t = Concat <axis: int = 0> (END, i) y = Reshape (x, t)"""
    first, second = (model(text.replace("END", name)) for name in "nr")
    assert not ird.check_onnx(first, second).passed


@each_row("node", {
    "kept": "y = ReduceSum <keepdims: int = {}> (x, q)",
    "largest": "y, i = TopK <largest: int = {}> (x, q)",
    "turned": "y = CumSum <reverse: int = {}> (x, o)",
    "upper": "y = Trilu <upper: int = {}> (x)",
})  # fmt: skip
def test_a_flag_that_is_neither_0_nor_1(node: str) -> None:
    """ONNX Runtime takes it for the one or the other, by operation."""
    head = f"{X} => float y; int64[1] q = {{1}}, int64 o = {{1}};;"
    models = [model(f"{head} {node.format(flag)}") for flag in (0, 1, 2, -1)]
    for i, first in enumerate(models):
        first.graph.output[0].type.tensor_type.ClearField("shape")
        assert [not ird.check_onnx(first, m).problems for m in models] == list(np.eye(4)[i])


def test_files_that_no_runtime_reads() -> None:
    """Two nodes of one name, an old operation set, an odd sparse tensor, an attribute twice."""
    made = model(PLAIN)
    other = model(PLAIN)
    other.graph.node.add().CopyFrom(other.graph.node[0])
    del other.graph.node[0]  # nodes in another order are read
    require(made, other, equal=True)
    other = model(f"{X} => {Y}; float[4] c = {{1, 1, 1, 1}};; y = Resize (x, , c)")
    require(other, other, equal=True)
    old = onnx.ModelProto.FromString(other.SerializeToString())
    old.opset_import[0].version = 11  # it needs a roi
    require(other, old, equal=False)
    for change in range(4):
        other = model(PLAIN)
        for node in other.graph.node if change == 0 else ():
            node.name = "twice"
        other.opset_import[0].version = 5 if change == 1 else 17
        if change == 2:
            other.graph.sparse_initializer.add()
        if change == 3:
            other.graph.node[0].attribute.extend(made.graph.node[0].attribute)
        require(made, other, equal=False)


@each_row("node", [
    "Gather (x, nothing)", "Conv (x, nothing)", "Dropout (x, nothing)", "ReduceSum (x, nothing)",
])  # fmt: skip
def test_an_input_that_nothing_computes(node: str) -> None:
    made = model(f"{X} => {Y}; float z = {{0}};; y = {node}")
    with pytest.raises(ird.IrdeconvError, match="nothing"):
        ird.check_onnx(made, made)


def test_integers_that_are_data_are_no_sizes() -> None:
    """A 0 copies an axis in the first model only."""
    text = "float[2, 6] x, int64[2] t => float[A, B] y; y = Reshape {} (x, t)"
    first, second = (model(text.format(kind)) for kind in ("", "<allowzero: int = 1>"))
    assert [ird.check_onnx(first, b).passed for b in (first, second)] == [True, False]


def test_inputs_with_a_default() -> None:
    made, other = model(PLAIN), model(PLAIN)
    item = onnx.helper.make_tensor_value_info("w", 1, [2, 1, 2, 2])
    require(made, made, equal=True)
    other.graph.input.append(item)
    require(made, other, equal=False)
    require(other, made, equal=False)
    require(other, other, equal=True)
    changed = model(PLAIN.replace("-6", "6"))
    changed.graph.input.append(item)
    require(other, changed, equal=False)
