"""Targets: what is checked, and profiles."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import irdeconv as ird
from irdeconv.base.form_names import AUTO, CONDITIONS
from irdeconv.cli.main import main
from irdeconv.cli.verbs import verb_parser
from irdeconv.formats.onnx_types import check_nodes, executed_nodes
from irdeconv.rewrite.forms import FORMS
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.target_conditions import Facts
from irdeconv.rewrite.targets import ScoreWeights, Target, check_graph, executed, parse_target
from support.commands import answer
from support.ir_text import write_ir
from support.layers import Layer
from support.onnx_models import convert, info, model, single
from support.rows import each_row
from test_forms import graph_of, graph_only, two_d

# Layers against a target: facts of IR and ONNX, which layers are looked at, bodies, commands.

HEAD = "ir_samples/openvino/segmentation_head.xml"
X = {"x": np.zeros((1, 8, 6, 9), np.float32)}
Described = dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]]


def plain(facts: Facts) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    return dict(facts.values), {k: tuple(v) for k, v in facts.axes.items()}


def of_onnx(made: Any) -> Described:
    return {name: plain(facts) for _, _, name, facts in executed_nodes(made)}


def of_graph(graph: ird.Graph) -> Described:
    return {name: plain(facts) for _, _, name, facts in executed(ird.infer(graph))}


def weights(*shape: int) -> dict[str, Any]:
    return {"w": np.ones(shape, np.float32)}


# ONNX's operation; inputs beside X; constants; attributes: the operation of an IR and its facts.
SAME_FACTS = """
Conv; ; w=ones(4, 8, 3, 2); strides=[2, 1], pads=[1, 0, 2, 1]: Convolution inputs=8 outputs=4 \
    groups=1 depthwise=False multiplier=4 kernel=3,2 stride=2,1 pad_begin=1,0 pad_end=2,1
Conv; ; w=ones(8, 1, 3, 3); group=8, dilations=[1, 2]: GroupConvolution inputs=8 outputs=8 \
    groups=8 depthwise=True multiplier=1 dilation=1,2 size=6,9
Conv; ; w=ones(4, 8, 3, 3); auto_pad="SAME_UPPER", strides=[2, 2]: Convolution rank=4 batch=1 \
    type=f32 spatial_axes=2 constant_filter=True pad_begin=0,1 pad_end=1,1
Conv; x=ones(2, 3, 7); w=ones(3, 3, 5); : Convolution rank=3 batch=2 spatial_axes=1 \
    has_bias=False kernel=5 pad_begin=0
Conv; w=ones(4, 8, 1, 1); ; : Convolution constant_filter=False
ConvTranspose; ; w=ones(8, 4, 4, 4); strides=[2, 2], pads=[1, 1, 1, 1]: ConvolutionBackpropData \
    inputs=8 outputs=4 groups=1 depthwise=False kernel=4,4 stride=2,2 pad_begin=1,1 \
    output_padding=0,0
ConvTranspose; ; w=ones(8, 2, 3, 3); strides=[3, 2], output_padding=[2, 1], group=4: \
    GroupConvolutionBackpropData inputs=8 outputs=8 groups=4 multiplier=2 output_padding=2,1
ConvTranspose; ; w=ones(8, 4, 5, 5); strides=[2, 2], auto_pad="SAME_UPPER": \
    ConvolutionBackpropData spatial_axes=2 pad_begin=1,1 pad_end=2,2 output_padding=0,0
ConvTranspose; ; w=ones(8, 4, 2, 2); strides=[3, 3], output_shape=[18, 26]: \
    ConvolutionBackpropData spatial_axes=2 pad_begin=0,0 pad_end=0,0 output_padding=1,0
Pad; ; p=array([0, 0, 1, -2, 0, 0, 3, 0]); mode="constant": Pad mode=constant value=0 channels=8 \
    amount_begin=0,0,1,-2 amount_end=0,0,3,0 size=6,9
Pad; ; p=array([0, 0, 0, 2] * 2), v=float32(0.5); : Pad value=1/2
Slice; ; s=array([1, 0, 0]), e=array([5, 9, 6]), a=array([-3, 3, 2]), t=array([1, 3, 1]); : \
    Slice axis=1,3 step=1,3 step=1,1,1,3
Transpose; ; ; perm=[0, 2, 3, 1]: Transpose order=0,2,3,1 rank=4
Transpose; x=ones(2, 3); ; : Transpose order=1,0 rank=2 channels=3 size=
DepthToSpace; ; ; blocksize=2, mode="CRD": DepthToSpace block=2 mode=depth_first
DepthToSpace; ; ; blocksize=2: DepthToSpace mode=blocks_first
Concat; z=ones(1, 4, 6, 9); ; axis=-3: Concat axis=1 parts=2 channels=8,4
Split; ; ; outputs=2, axis=-1 - 2: Split axis=1
Resize; ; r=ones(0), s=float32([1, 1, 2, 4 / 3]); mode="nearest", nearest_mode="floor", \
    coordinate_transformation_mode="asymmetric": Interpolate mode=nearest scale=2,4/3
Reshape; ; s=array([1, 2, 4, 6, 9]); : Reshape rank=5 batch=1 channels=8 size=6,9
Squeeze; ; a=array([0]); : Squeeze rank=4
Unsqueeze; ; a=array([0]); : Unsqueeze rank=5
Tile; ; r=array([1, 2, 1, 1]); : Tile rank=4
Relu; ; ; : ReLU rank=4 type=f32
Mul; ; m=ones(1); : Multiply rank=4
Sub; ; m=ones(1); : Subtract rank=4
Div; ; m=2 * ones(1); : Divide rank=4
Max; z=ones(1, 8, 6, 9); ; : Maximum rank=4
Clip; ; l=float32(0), h=float32(6); : Clamp rank=4
PRelu; ; m=ones(8, 1, 1); : PReLU rank=4
MatMul; ; m=ones(9, 2); : MatMul rank=4
Cast; ; ; to=TensorProto.FLOAT16: Convert type=f32
"""
NAMES = {"ones": lambda *s: np.ones(s, np.float32), "array": np.array, "float32": np.float32}


@each_row("row", SAME_FACTS.replace("\\\n", "").strip().split("\n"))
def test_ir_and_onnx_have_the_same_facts(row: str) -> None:
    """The facts are those of the operation that they begin with; of lists for each axis."""
    written, _, facts = row.rpartition(": ")
    name, *wanted = facts.split()
    kind, *parts = written.split(";")
    known = NAMES | {"TensorProto": TensorProto}
    inputs, constants, more = (eval(f"dict({part})", dict(known)) for part in parts)
    made = single(kind, {**X, **inputs}, constants, **more)
    found = of_onnx(made)[name]
    shown = {
        f"{k}={','.join(map(str, v)) if isinstance(v, tuple) else v}"
        for part in found
        for k, v in part.items()
    }
    assert {*wanted} <= shown
    assert of_graph(convert(made))[name] == found


def test_sizes_that_are_known_only_at_run_time() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER"),
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Reshape", ["c", "s"], ["y"]),
    ]
    made = model(nodes, [info("x", ["n", 8, "h", 9])], ["y"], weights(4, 8, 3, 3))
    for found in (of_onnx(made), of_graph(convert(made))):
        values, axes = found["Convolution"]
        assert (values["batch"], values["inputs"], axes["kernel"]) == (None, 8, (3, 3))
        assert axes["size"] == (None, 9)
        assert axes["pad_begin"] == (None, None)
        assert found["ShapeOf"][0]["rank"] == 4
        assert "Reshape" in found
    target = parse_target('[operations]\nConvolution = ["pad <= 1"]\nShapeOf = []', "npu")
    assert [v.text for v in check_nodes(made, target)] == [
        "pad <= 1: pad is known only at run time (axis h, begin)",
        "Reshape is not in the target's list of operations",
    ]


def test_a_bias_belongs_to_its_convolution() -> None:
    with_bias = single("Conv", X, {**weights(4, 8, 1, 1), "b": np.ones(4, np.float32)})
    for found in (of_onnx(with_bias), of_graph(convert(with_bias))):
        assert found["Convolution"][0]["has_bias"] is True
        assert "Add" not in found
    scalar = np.ones((1, 1, 1), np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["y"]),
        helper.make_node("Relu", ["c"], ["z"]),
    ]
    made = model(nodes, [info("x", X["x"].shape)], ["y", "z"], {**weights(4, 8, 1, 1), "b": scalar})
    for found in (of_onnx(made), of_graph(convert(made))):  # the convolution has another reader
        assert found["Convolution"][0]["has_bias"] is False
        assert "Add" in found


def test_constants_are_not_looked_at() -> None:
    nodes = [
        helper.make_node("Transpose", ["w0"], ["w1"], perm=[1, 0, 2, 3]),
        helper.make_node("Mul", ["w1", "two"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    constants = {"w0": np.ones((8, 4, 1, 1), np.float32), "two": np.float32(2)}
    made = model(nodes, [info("x", X["x"].shape)], ["y"], constants)
    for found in (of_onnx(made), of_graph(convert(made))):
        assert [*found] == ["Convolution"]
        assert found["Convolution"][0]["constant_filter"] is True


def test_a_filter_does_not_count_for_the_rank() -> None:
    made = single("Conv", X, weights(8, 4, 1, 1), group=2)  # [2, 4, 4, 1, 1] in an IR
    target = Target("npu", max_rank=4)
    assert check_graph(convert(made), target) == check_nodes(made, target) == []


def loop() -> Any:
    """A Loop around a Conv whose filter is a constant of the graph outside."""
    body = helper.make_graph(
        [
            helper.make_node("Conv", ["v", "w"], ["r"], name="inner", pads=[1, 1, 1, 1]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            info("i", [], TensorProto.INT64),
            info("c", [], TensorProto.BOOL),
            info("v", [1, 8, 6, 9]),
        ],
        [info("d", [], TensorProto.BOOL), info("r", [1, 8, 6, 9])],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)
    constants = {"n": np.array(3), **weights(8, 8, 3, 3)}
    return model([node], [info("x", [1, 8, 6, 9])], ["y"], constants)


def test_bodies() -> None:
    target = parse_target(
        '[operations]\nLoop = []\nConvolution = ["kernel == 1", "constant_filter"]', "npu"
    )
    (found,) = check_nodes(loop(), target)
    assert str(found) == ('Convolution "inner (body of Loop "loop")": kernel == 1: 3 (axis h)')
    made = convert(loop())
    (found,) = check_graph(ird.infer(made), target)
    assert found.text == "kernel == 1: 3 (axis h)"
    assert 'in Loop "loop"' in found.layer
    shown = ird.inspect(made, target=target).layers
    assert {r.name: r.violations for r in shown if r.violations} == {
        "loop": ("Convolution: kernel == 1: 3 (axis h)",)
    }


def test_only_some_layers() -> None:
    low = standardize(ird.lower(HEAD).graph)
    target = parse_target("[operations]\nConvolution = []\nGroupConvolution = []", "npu")
    written = check_graph(low, target, lambda node: bool(node.origins))
    assert {v.operation for v in written} == {"Reshape", "Pad"}
    assert {v.layer.split("/")[0] for v in written} == {"up1", "up2"}
    assert len(check_graph(low, target)) > len(written)
    made = single("Conv", X, weights(8, 8, 1, 1))
    assert check_nodes(made, Target("npu", max_rank=3), lambda n: n.name != "n") == []


def test_functions_count_by_their_nodes() -> None:
    onnx_opset, mine = helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)
    inner = helper.make_node("Relu", ["a"], ["b"], name="inner")
    function = helper.make_function("mine", "Act", ["a"], ["b"], [inner], [onnx_opset])
    made = model([helper.make_node("Act", ["x"], ["y"], domain="mine")], [info("x", [1])], ["y"])
    made.opset_import.append(mine)
    made.functions.append(function)
    (found,) = check_nodes(made, parse_target("[operations]", "npu"))
    assert str(found).startswith('ReLU "inner (function "Act")": ReLU is not in')


def test_other_domains_and_odd_attributes() -> None:
    made = model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], domain="com.example"),
            helper.make_node("Conv", ["a", "w"], ["b"], name="no_rank"),
            helper.make_node("ConvTranspose", ["b", "w"], ["c"], pads=[1], name="odd"),
            helper.make_node("Pad", ["c", "a"], ["d"], name="open"),
            helper.make_node("Slice", ["d", "a", "a"], ["e"]),
            helper.make_node("Concat", ["e", "a"], ["f"], axis=-1),
            helper.make_node("Resize", ["f", "", "a"], ["y"]),
        ],
        [info("x", [1, 8, 6, 9])],
        ["y"],
        weights(8, 8, 1, 1),
    )
    found = of_onnx(made)
    assert found["Conv"][0]["rank"] == 4  # as its filter says
    assert found["Convolution"][1]["kernel"] == (1, 1)
    assert found["Pad"][1]["amount_begin"] == (None,)
    assert found["Slice"][0]["axis"] is None
    target = parse_target('[operations]\nConvolutionBackpropData = ["kernel == 1"]', "npu")
    assert all(v.text for v in check_nodes(made, target))


TARGET = '[operations]\nConvolution = ["kernel <= 2"]\nReLU = []\n'


@pytest.mark.usefixtures("pipe")
def test_the_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "npu.toml"
    file.write_text(TARGET)
    answer("validate", HEAD)
    assert main(["validate", HEAD, "--target", str(file), "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {d["code"] for d in found} == {"E420"}
    assert found[0]["layer"] == "conv1"
    assert found[0]["line"] == 26
    assert found[0]["message"] == (
        'Convolution "conv1" does not run on npu: kernel <= 2: 3 (axis h)'
    )
    text = " ".join(answer("inspect", HEAD, "--target", file).out.split())
    assert "! * ConvolutionBackpropData" in text
    assert "not executed: kernel <= 2: 3 (axis h)" in text
    assert "npu cannot execute 8 of 14 layers that are not constant" in text
    command = ["inspect", HEAD, "--target", str(file), "--lower", "--format", "json"]
    shown = answer(*command).json
    assert shown["target"] == shown["lowered"]["target"] == "npu"
    bad = {r["name"]: r["violations"] for r in shown["lowered"]["layers"] if "violations" in r}
    assert any(v.startswith("Reshape") for v in bad["up1/ZeroInsertion"])
    lines = answer("lower", "--list-targets").out.splitlines()
    assert any(line.startswith("rk3588 ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_validate_of_an_onnx_model(tmp_path: Path) -> None:
    made = single("Conv", X, weights(4, 8, 3, 3))
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    target = parse_target(TARGET, "npu")
    for given in (made, path, path.read_bytes()):
        (found,) = ird.validate(given, target=target)
        assert (found.code, found.layer) == ("E420", "n")
        assert "kernel <= 2: 3 (axis h)" in found.message
    (found,) = ird.validate(made, target=target, shapes={"x": [1, 8, 7, 7]})
    assert ird.validate(ird.convert(path), target=target)[0].code == "E420"
    assert ird.validate(made, target="rk3588") == []
    with pytest.raises(ird.UsageError):
        ird.validate(made, target="nothing")


# Targets refuse and weigh forms, and decide which one is chosen.


def chosen(layer: Layer, target: Any, **more: Any) -> tuple[str | None, dict[str, str | None]]:
    low = ird.lower(graph_only(layer, **more), "auto", target, explain_costs=True, best_effort=True)
    (record,) = low.report
    return record.form, {c.form: c.refused for c in record.costs}


def test_the_choice_is_the_least_score_of_the_weighting() -> None:
    graph = graph_only(two_d())
    for row in ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (2, 3, 5, 7)):
        weights = ScoreWeights(*row)
        (record,) = ird.lower(graph, "auto", Target(cost=weights), explain_costs=True).report
        rows = {c.form: c for c in record.costs if c.cost is not None}
        for c in rows.values():
            assert c.cost is not None
            assert c.score == pytest.approx(
                weights.mac * c.cost.macs
                + weights.byte * c.cost.bytes
                + weights.scratch * c.cost.scratch
                + weights.node * c.cost.nodes
            )
        open_rows = [c for c in rows.values() if c.refused is None]
        least = min(c.score for c in open_rows if c.score is not None)
        assert rows[record.form or ""].score == least
    assert chosen(two_d(), Target(cost=ScoreWeights(1, 0, 0, 0)))[0] == "phases"
    wide = two_d(c=64, m=64, size=(32, 32))
    assert chosen(wide, "generic")[0] == "phases"
    # Of a kernel that is the stride both make the same convolution; the first one is taken.
    assert chosen(replace(wide, kernel=(2, 2)), "generic")[0] == "stacked"


UPSAMPLED = two_d(kernel=(2, 2), pads_begin=(0, 0), pads_end=(0, 0))


def target(name: str = "tiny", *, without: str = "", **conditions: str) -> Target:
    """A target with all operations that forms take, but for some, and these conditions."""
    names = "Add Concat Convolution DepthToSpace GroupConvolution Pad Reshape Slice Transpose"
    names += " Gather Multiply ShapeOf Squeeze Subtract Unsqueeze"
    listed = {n: [conditions[n]] if n in conditions else [] for n in names.split()}
    rows = [f"{n} = {json.dumps(c)}" for n, c in listed.items() if n not in without.split()]
    return parse_target("[operations]\n" + "\n".join(rows), name)


FLAT = {"Convolution": "spatial_axes == 1"}
UNPADDED = {"without": "Pad Concat", "Convolution": "pad == 0"}
UNLISTED = "DepthToSpace is not in the target's list of operations"


@each_row(
    ("limits", "layer", "form", "reason"),
    [
        ({"Convolution": "kernel <= 2"}, two_d(), "zero-insertion", None),  # split
        ({"Convolution": "kernel <= 2"}, two_d(), "phases", None),
        ({"Convolution": "dilation == 1"}, two_d(dilations=(1, 3)), "zero-insertion", None),
        ({"without": "GroupConvolution"}, two_d(groups=2), "stacked", None),  # dense
        (FLAT, two_d(), "gemm", "the kernel [4, 4] is not the stride [2, 2]"),
        (FLAT, UPSAMPLED, "gemm", "spatial_axes == 1: 2"),
        ({"without": "Pad"}, two_d(), "phases", None),  # own pads
        (UNPADDED, two_d(), "stacked", "pad == 0: 1 (axis h, begin)"),
        ({"without": "DepthToSpace"}, two_d(), "phases", None),
        ({"without": "DepthToSpace Transpose"}, two_d(), "phases", None),  # Concat
        ({"without": "DepthToSpace Transpose Reshape"}, two_d(), "stacked", UNLISTED),
        ({"without": "Transpose"}, two_d(), "stacked", None),
    ],
)
def test_limits_refuse_forms(limits: Any, layer: Layer, form: str, reason: str | None) -> None:
    _, refused = chosen(layer, target(**limits))
    assert refused[form] == reason


def test_filters_that_are_no_constants_can_be_refused() -> None:
    npu = target(Convolution="constant_filter")
    form, refused = chosen(two_d(), npu, filter_input=True)
    assert form == "zero-insertion"
    assert {refused[f] for f in ("zero-insertion", "phases", "stacked")} == {
        "constant_filter: false"
    }
    assert chosen(two_d(), npu)[1]["phases"] is None


def test_alignment_counts_rounded_channels() -> None:
    """C = 2 and M = 3 are rounded up to 8; the stacked form has 12 outputs, rounded to 16."""
    graph = graph_only(two_d())
    weights = ScoreWeights(1, 0, 0, 0, channel_alignment=8)
    (record,) = ird.lower(graph, "auto", Target(cost=weights), explain_costs=True).report
    factors = {c.form: c.score / c.cost.macs for c in record.costs if c.score and c.cost}
    assert factors["zero-insertion"] == factors["phases"] == pytest.approx(4 * 8 / 3)
    assert factors["stacked"] == pytest.approx(4 * 16 / 12)


def test_no_form_suits() -> None:
    graph, feeds, want = graph_of(two_d())
    tiny = target("tiny", Convolution="spatial_axes == 1")
    with pytest.raises(ird.TargetError, match="no form meets the conditions of tiny") as caught:
        ird.lower(graph, "auto", tiny)
    (error,) = caught.value.diagnostics
    assert error.code == "E421"
    assert "phases: spatial_axes == 1: 2" in [n.message for n in error.notes]
    low = ird.lower(graph, "auto", tiny, best_effort=True)
    (record,) = low.report
    assert record.reason == "no form meets tiny"
    assert {d.code for d in low.report.diagnostics} == {"W402"}
    assert np.array_equal(ird.run(low.graph, feeds, form=None, fuse=False)["y"], want)


def test_a_form_that_was_asked_for_is_held_to_the_conditions() -> None:
    graph = graph_only(two_d())
    with pytest.raises(ird.TargetError, match="phases violates conditions of tiny"):
        ird.lower(graph, "phases", target("tiny", Convolution="spatial_axes == 1"))
    low = ird.lower(graph, "phases", target("tiny", Convolution="kernel <= 2"))
    assert [r.form for r in low.report] == ["phases"]
    assert ird.lower(graph, "phases").report.diagnostics == ()


def test_packaged_targets_choose() -> None:
    layer = two_d(c=16, m=16, size=(16, 16))
    assert chosen(layer, "zero-insertion-hardware")[0] == "zero-insertion"
    low = ird.lower(graph_only(layer), "auto", "no-depth-to-space").graph
    assert not list(low.nodes("DepthToSpace"))
    assert list(low.nodes("Transpose"))


def test_the_help_names_every_form() -> None:
    assert [*CONDITIONS] == [*FORMS]
    text = " ".join(verb_parser("run").format_help().split())
    assert all(form in text for form in (*FORMS, AUTO))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, out = tmp_path / "net.xml", tmp_path / "low.xml"
    write_ir(net, two_d(), np.ones(two_d().filter_shape))
    (tmp_path / "npu.toml").write_text(
        "[operations]\nConvolution = ['kernel <= 2']\nConcat = []\nReshape = []\n"
    )
    command = ["lower", str(net), "--target", str(tmp_path / "npu.toml")]
    text = answer(*command, "--explain-costs", "-o", out).out
    assert "deconv: stacked refused: " in text
    assert "1 deconvolution of 1 lowered as auto for npu" in text
    report = answer(*command, "--explain-costs", "--format", "json").json
    assert report["target"] == "npu"
    rows = {c["form"]: c for c in report["layers"][0]["costs"]}
    assert list(rows) == list(FORMS)
    assert rows["phases"]["macs"] == 2 * 2 * 3 * 16 * 3 * 4
    assert rows["phases"]["chosen"]
    (tmp_path / "npu.toml").write_text("[operations]\nConvolution = ['kernel <= 2']\n")
    assert main([*command, "-o", str(tmp_path / "no.xml")]) == 1
    assert not (tmp_path / "no.xml").exists()
    assert "error[E421]" in capsys.readouterr().err
    assert "warning[W402]" in answer(*command, "-o", tmp_path / "no.xml", "--best-effort").err
    text = answer("lower", net, "--form", "gemm").out
    assert "deconv: zero-insertion instead of gemm: the kernel [4, 4]" in text
    assert "1 deconvolution of 1 lowered, 1 as zero-insertion instead of gemm; " in text
