"""Targets: what they promise, and their files."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.rewrite.target_conditions import Condition, Facts
from irdeconv.rewrite.targets import (
    MOST_CONDITIONS,
    ScoreWeights,
    Target,
    load_target,
    parse_target,
    target_names,
)
from legal_layers import (
    Shapes,
    Subject,
    Written,
    ir_subject,
    onnx_subject,
    random_deconvolution,
    target_of,
    text_of,
)
from random_targets import random_subject, random_target
from support.commands import Capture, answer
from support.rows import each_row, parts, tables

TABLES = tables(__file__)

# A target is a contract: what is written meets its conditions, or nothing is written.

SECONDS = 2.0  # of the processor, for a small layer
CASES, MANY = 20, 100  # cases of a part, parts of the sweep
CLI_CASES = 12


def lowered_or_refused(
    subject: Subject, target: Target, options: dict[str, Any]
) -> Written | ird.TargetError:
    try:
        low = subject.lower(target, **options)
    except ird.TargetError as refusal:
        return refusal
    assert low.seconds < SECONDS, subject.note
    return low


def require_reasons(refusal: ird.TargetError, subject: Subject) -> None:
    """Every diagnostic says which conditions are not met, with numbers."""
    errors = [d for d in refusal.diagnostics if d.severity == "error"]
    assert errors, subject.note
    for d in errors:
        assert d.code == "E421", (subject.note, d.message)
        assert d.notes, (subject.note, d.message)
        assert d.layer, (subject.note, d.message)


def require_contract(seed: int) -> str:
    """One random layer and target; what became of it."""
    rng = np.random.default_rng([7, seed])
    target = random_target(rng)
    subject, options = random_subject(rng)
    found = lowered_or_refused(subject, target, options)
    if isinstance(found, ird.TargetError):
        require_reasons(found, subject)
        return "refused"
    got = found.run()
    assert got.shape == subject.want.shape, subject.note
    assert np.array_equal(got, subject.want), (subject.note, found.rules)
    assert found.violations() == [], (subject.note, found.rules)
    return "lowered"


@pytest.mark.sampled(1)
@pytest.mark.thorough
@pytest.mark.parametrize("part", parts(8, MANY))
def test_random_targets_are_met_or_refused(part: int) -> None:
    seen = Counter(require_contract(part * CASES + i) for i in range(CASES))
    assert seen["lowered"] >= 3
    assert seen["refused"] >= 1


# The command -----------------------------------------------------------------------------------


def saved(subject: Subject, folder: Path) -> tuple[Path, Path]:
    """Write a subject as a file; return its path and that of the lowered one."""
    if subject.is_onnx:
        path = folder / "model.onnx"
        path.write_bytes(subject.model.SerializeToString())
        return path, folder / "lowered.onnx"
    path = folder / "model.xml"
    ird.write(subject.model, path)
    return path, folder / "lowered.xml"


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def formatted(seed: int) -> tuple[Target, Subject]:
    rng = np.random.default_rng([8, seed])
    target, layer = random_target(rng), random_deconvolution(rng, Shapes(products=1000))
    free = (0,) if rng.random() < 0.3 else ()
    build = onnx_subject if seed % 2 else ir_subject
    return target, build(rng, layer, bias=bool(rng.random() < 0.5), free=free)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", parts(CLI_CASES, MANY))
def test_the_command_writes_all_or_nothing(seed: int, tmp_path: Path, capsys: Capture) -> None:
    target, subject = formatted(seed)
    model, out = saved(subject, tmp_path)
    profile = tmp_path / "tiny.toml"
    profile.write_text(text_of(target), encoding="utf-8")
    before = files_of(tmp_path)
    code = main(["lower", str(model), "-o", str(out), "--target", str(profile)])
    printed = capsys.readouterr()
    if code:
        assert code == 1
        assert "E421" in printed.err
        assert files_of(tmp_path) == before
    else:
        assert main(["validate", str(out), "--target", str(profile)]) == 0
        again = onnx.load(out) if subject.is_onnx else ird.infer(ird.read(out))
        assert Written(subject, target, again, None, 0).violations() == []
    capsys.readouterr()
    best = main(["lower", str(model), "-o", str(out), "--target", str(profile), "--best-effort"])
    printed = capsys.readouterr()
    assert best == 0, printed.err
    assert out.exists()
    assert ("W402" in printed.err) == bool(code)


def small(*, onnx_file: bool, groups: int | None = None) -> Subject:
    rng = np.random.default_rng(5)
    shapes = Shapes(axes=(2,), grouped=groups is not None, stride=(2, 2), kernel=(2, 3))
    layer = random_deconvolution(rng, shapes)
    return (onnx_subject if onnx_file else ir_subject)(rng, layer)


@pytest.mark.parametrize("onnx_file", [False, True], ids=["IR", "ONNX"])
def test_refusals_have_numbers(onnx_file: bool, tmp_path: Path) -> None:
    model, out = saved(small(onnx_file=onnx_file), tmp_path)
    profile = tmp_path / "wide.toml"
    rows = [f'{n} = ["inputs >= 100 * kernel_h"]' for n in ("Convolution", "GroupConvolution")]
    listed = [f"{n} = []" for n in ("Reshape", "Pad", "Slice", "Concat", "Transpose", "Add")]
    profile.write_text("\n".join(["[operations]", *rows, *listed]), encoding="utf-8")
    given = ("--target", profile, "--format", "json")
    said = "".join(answer("lower", model, "-o", out, *given, code=1))
    assert "E421" in said
    assert ">= 100 * " in said
    assert not out.exists()


@pytest.mark.parametrize("onnx_file", [False, True], ids=["IR", "ONNX"])
@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_a_form_is_held_to_the_conditions(form: str, onnx_file: bool, tmp_path: Path) -> None:
    subject = small(onnx_file=onnx_file)
    with pytest.raises(ird.TargetError) as refusal:
        subject.lower(target_of(listed=["Reshape"]), form)
    require_reasons(refusal.value, subject)
    (error,) = (d for d in refusal.value.diagnostics if d.severity == "error")
    assert form in error.message
    low = subject.lower(target_of(), form)
    assert [r.form for r in low.report] == [form]
    assert low.violations() == []


@pytest.mark.parametrize("onnx_file", [False, True], ids=["IR", "ONNX"])
def test_only_chooses_layers(onnx_file: bool) -> None:
    subject = small(onnx_file=onnx_file)
    with pytest.raises(ird.UsageError, match=r'only="other\*": no layer to lower'):
        subject.lower(target_of(listed=["Reshape"]), only="other*")
    with pytest.raises(ird.TargetError):
        subject.lower(target_of(listed=["Reshape"]), only="dec*")


@pytest.mark.parametrize("onnx_file", [False, True], ids=["IR", "ONNX"])
def test_best_effort_warns(onnx_file: bool) -> None:
    subject = small(onnx_file=onnx_file)
    low = subject.lower(target_of(listed=["Reshape"]), best_effort=True)
    warnings = [d for d in low.report.diagnostics if d.code == "W402"]
    assert warnings
    assert all(d.notes and d.severity == "warning" for d in warnings)
    assert low.violations()
    assert np.array_equal(low.run(), subject.want)


def test_convolutions_by_the_command(tmp_path: Path, capsys: Capture) -> None:
    from legal_layers import convolution_subject, random_convolution

    rng = np.random.default_rng(4)
    conv = random_convolution(rng, Shapes(axes=(2,), stride=(2, 2), dilation=(2, 2), kernel=(2, 3)))
    profile = tmp_path / "tiny.toml"
    target = target_of({key: ["dilation == 1"] for key in ["Convolution", "GroupConvolution"]})
    profile.write_text(text_of(target), encoding="utf-8")
    for onnx_file in (False, True):
        folder = tmp_path / str(onnx_file)
        folder.mkdir()
        subject = convolution_subject(rng, conv, bias=True, onnx=onnx_file)
        model, out = saved(subject, folder)
        args = [str(model), "-o", str(out), "--target", str(profile)]
        assert main(["lower", *args]) == 0
        assert main(["validate", str(out), "--target", str(profile)]) == 1
        assert main(["lower", *args, "--convolutions"]) == 0
        assert main(["validate", str(out), "--target", str(profile)]) == 0
    capsys.readouterr()


def test_reports_name_the_target() -> None:
    low = small(onnx_file=False).lower(target_of(name="mine"))
    assert low.report.target == "mine"
    json.dumps([r.to_dict() for r in low.report])


# Files of targets: what they say, mistakes with their places, hostile files, packaged ones.

EXAMPLE = TABLES["example"]
DEVICES = (
    "dpuczdx8g dpucvdx8g tidl-am68a ethos-u55 ethos-n78 kneron-720 kneron-530 kneron-520 rk3588 "
    "hexagon-htp nvdla k210 max78000 intel-npu edgetpu tosa-8k"
).split()


def mistakes(text: str) -> list[ird.Diagnostic]:
    with pytest.raises(ird.UsageError) as raised:
        parse_target(text, "npu", "npu.toml")
    return raised.value.diagnostics


def test_the_example_of_the_format(tmp_path: Path) -> None:
    target = parse_target(EXAMPLE, "npu")
    assert target.name == "npu"
    assert (target.max_rank, target.types, target.wide_sums) == (4, ("f32", "f16", "i8"), True)
    assert target.cost == ScoreWeights(
        mac=0, node=1, channel_alignment=16, skips_inserted_zeros=True
    )
    assert target.operations is not None
    assert target.operations["Reshape"] == ()
    assert target.operations["Slice"] == (Condition.parse("step == 1", "Slice"),)
    assert target.has("Transpose")
    assert not target.has("Pad")
    file = tmp_path / "npu.toml"
    file.write_text(EXAMPLE)
    assert load_target(file) == load_target(str(file)) == target == load_target(target)


def test_what_a_layer_does_not_meet() -> None:
    target = parse_target(EXAMPLE, "npu")
    values = {"rank": 5, "type": "f64", "batch": 1, "channels": 16, "block": 3}
    assert target.failures("DepthToSpace", Facts({**values, "mode": "depth_first"})) == [
        "max_rank = 4: 5 axes",
        "types: f64",
        "block in (2, 4): 3",
    ]
    assert target.failures("Pad", Facts({"rank": 4, "type": "f32"})) == [
        "Pad is not in the target's list of operations"
    ]
    assert target.failures("Reshape", Facts({})) == [
        "max_rank = 4: the rank is known only at run time",
        "types: known only at run time",
    ]
    assert target.failures("Reshape", Facts({"rank": 4, "type": "i8"})) == []
    assert parse_target("", "any").failures("Anything", Facts({})) == []
    assert parse_target("[operations]\n", "none").failures("Add", Facts({})) == [
        "Add is not in the target's list of operations"
    ]


def test_every_mistake_has_a_place_and_the_nearest_name() -> None:
    assert [
        (d.message, d.location and d.location.position, d.hint) for d in mistakes(TABLES["bad"])
    ] == [
        ("description is a string, not 7", (1, 1), ""),
        ("unknown key 'max_rnk'", (2, 1), 'did you mean "max_rank"?'),
        ("max_rank is an integer from 1 to 64, not 0", (3, 1), ""),
        ("unknown element type 'f23'", (4, 18), 'did you mean "f32"?'),
        ("unknown element type '3'", (4, 25), 'did you mean "u3"?'),
        ("wide_sums is true or false, not 'yes'", (5, 1), ""),
        (
            "condition 'kernal <= 3' of Convolution: Convolution has no kernal",
            (7, 17),
            'did you mean "kernel"?',
        ),
        (
            "condition 'kernel <' of Convolution: it is not an expression: invalid syntax",
            (7, 32),
            "",
        ),
        ("unknown operation 'Convolutoin'", (8, 1), 'did you mean "Convolution"?'),
        ("Reshape is a list of conditions, not 'x'", (9, 1), ""),
        ("unknown operation 'StridedSlice'", (10, 1), "write Slice"),
        ("Slice is a list of conditions, not [1]", (11, 1), ""),
        (
            "condition \"mode == 'constnt'\" of Pad: mode == 'constnt': mode is never \"constnt\"",
            (13, 9),
            'did you mean "constant"?',
        ),
        ("[cost] unknown key 'macs'", (15, 1), 'did you mean "mac"?'),
        ("[cost] byte is a number from 0 to 1e+30, not -1", (16, 1), ""),
        ("[cost] node is a number from 0 to 1e+30, not nan", (17, 1), ""),
        ("[cost] scratch is a number from 0 to 1e+30, not 1e+31", (18, 1), ""),
        ("[cost] channel_alignment is an integer from 1 to 2147483647, not 0", (19, 1), ""),
        ("[cost] skips_inserted_zeros is true or false, not 1", (20, 1), ""),
    ]


@each_row(
    ("text", "message"),
    [
        *TABLES["files_that_are_something_else"],
        ("x = " + "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("a" + ".a" * 1000 + " = 1", "a key has more than 100 parts"),
        ("max_rank = 1" + "0" * 4000, "max_rank is an integer from 1 to 64, not a number of"),
        ("max_rank = " + "9" * 10_000, "npu.toml: not TOML"),
        (f"[operations]\nAdd = {['rank == 4'] * (MOST_CONDITIONS + 1)}", "Add has 101 conditions"),
    ],
)
def test_files_that_are_something_else(text: str, message: str) -> None:
    assert any(message in d.message for d in mistakes(text))


def test_hostile_files_are_reported_in_part() -> None:
    found = mistakes("".join(f"key{n} = {n}\n" for n in range(10_000)))
    assert len(found) == 101
    assert found[0].message == "unknown key 'key0'"
    assert "9900 more" in found[-1].message
    conditions = ", ".join(f'"x{n} == 1"' for n in range(MOST_CONDITIONS))
    every = "".join(f"{name} = [{conditions}]\n" for name in ("Add", "Pad", "Slice", "Concat"))
    assert "300 more" in mistakes(f"[operations]\n{every}")[-1].message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ird.UsageError, match="not TOML"):
        load_target(tmp_path / "bytes.toml")
    (tmp_path / "large.toml").write_text("# " + "a" * 20)
    with ird.Limits(toml_bytes=10).applied(), pytest.raises(ird.LimitError):
        load_target(tmp_path / "large.toml")


def test_packaged_targets() -> None:
    general = ["generic", "no-depth-to-space", "zero-insertion-hardware"]
    assert target_names() == sorted([*general, *DEVICES])
    assert load_target(None).name == "generic"
    assert load_target("generic").operations is None
    for name in target_names():
        target = load_target(name)
        assert 0 < len(target.description) < 100
        assert bool(target.source) == (name in DEVICES)


def window(spatial: str = "2", **other: object) -> Facts:
    """The facts of a convolution with C = M = 16, changed."""
    axes = int(spatial)
    values = {"inputs": 16, "outputs": 16, "groups": 1, "depthwise": False, "multiplier": 16}
    values |= {"spatial_axes": axes, "rank": axes + 2, "batch": 1, "constant_filter": True}
    lists = {"kernel": 3, "stride": 1, "dilation": 1, "pad_begin": 1, "pad_end": 1, "size": 16}
    lists["output_padding"] = 0
    each = {k: (other.pop(k, v),) * axes for k, v in lists.items()}
    return Facts({"type": "f32", **values, **other}, each)  # type: ignore[arg-type]


@each_row(
    ("device", "operation", "facts", "text"),
    [
        ("dpuczdx8g", "Convolution", window(kernel=17), "kernel <= 16: 17"),
        ("dpuczdx8g", "Convolution", window(pad_end=3), "pad <= (kernel - 1) * dilation: "),
        ("dpuczdx8g", "GroupConvolution", window(groups=4), "depthwise: false"),
        ("dpucvdx8g", "Convolution", window(kernel=9), "ceil(inputs / 2048) <= 64: 9 * 9 "),
        ("tidl-am68a", "Convolution", window(kernel=4), "kernel in (1, 3, 5, 7): 4"),
        ("tidl-am68a", "ConvolutionBackpropData", window(kernel=3), "kernel in (2, 4, 8): 3"),
        ("ethos-u55", "Convolution", window(kernel=65), "(kernel_h - 1) * dilation_h + 1 <= 64"),
        ("ethos-u55", "ConvolutionBackpropData", window(stride=3), "stride in (1, 2): 3"),
        ("ethos-u55", "DepthToSpace", Facts({"rank": 4}), "DepthToSpace is not in the"),
        ("ethos-n78", "Convolution", window(kernel=4), "kernel in (1, 2, 3, 5, 7, 9): 4"),
        ("ethos-n78", "Convolution", window(pad_begin=2), "pad_begin + pad_end == 0 or "),
        ("ethos-n78", "Concat", Facts({"batch": 1, "rank": 4, "channels": (8, 16)}), "8 % 16"),
        ("kneron-720", "ConvolutionBackpropData", window(stride=3), "stride == 2: 3"),
        ("kneron-530", "Unsqueeze", Facts({"rank": 4}), "Unsqueeze is not in the"),
        ("kneron-520", "Transpose", Facts({"rank": 4}), "Transpose is not in the"),
        ("rk3588", "Convolution", window(pad_begin=16), "pad <= 15: 16"),
        ("rk3588", "Convolution", window("3"), "spatial_axes <= 2: 3"),
        ("rk3588", "Transpose", Facts({"rank": 5}), "rank == 4: 5"),
        ("hexagon-htp", "Reshape", Facts({"rank": 6}), "max_rank = 5: 6 axes"),
        ("hexagon-htp", "ConvolutionBackpropData", window(dilation=2), "dilation == 1: 2"),
        ("nvdla", "ConvolutionBackpropData", window(), "pad == 0: 1"),
        ("nvdla", "Concat", Facts({"axis": 2}), "axis == 1: 2"),
        ("k210", "Convolution", window(kernel=2), "kernel in (1, 3): 2"),
        ("k210", "Convolution", window(pad_end=0), "pad_begin_h == pad_end_h =="),
        ("max78000", "Convolution", window(stride=2), "stride == 1: 2"),
        ("max78000", "ConvolutionBackpropData", window(stride=2), "output_padding == 1: 0"),
        ("intel-npu", "Convolution", window(kernel=12), "kernel <= 11: 12"),
        ("edgetpu", "Transpose", Facts({"rank": 4}), "Transpose is not in the"),
        ("tosa-8k", "GroupConvolution", window("3", groups=16, depthwise=True), "== 2: 3"),
    ],
)
def test_limits_of_devices(device: str, operation: str, facts: Facts, text: str) -> None:
    found = load_target(device).failures(operation, facts)
    assert any(text in f for f in found), found


@each_row("device", DEVICES)
def test_every_device_has_a_common_convolution(device: str) -> None:
    assert load_target(device).failures("Convolution", window()) == []


def test_deconvolutions_that_are_same_or_valid() -> None:
    target = load_target("ethos-u55")

    def runs(**values: int) -> bool:
        facts = window(**({"stride": 2, "kernel": 4} | values))
        return target.failures("ConvolutionBackpropData", facts) == []

    assert runs(pad_begin=1, pad_end=1)  # O = 2 I
    assert runs(pad_begin=0, pad_end=0)  # O = 2 I + 2
    assert not runs(pad_begin=0, pad_end=2)  # O = 2 I, shifted
    assert not runs(pad_begin=0, pad_end=1)
    assert runs(kernel=3, pad_begin=0, pad_end=1)
    assert not runs(kernel=3, pad_begin=1, pad_end=1, output_padding=1)
    assert runs(kernel=1, pad_begin=0, pad_end=0, output_padding=1)
    assert runs(kernel=3, stride=1, pad_begin=1, pad_end=1)


def test_a_target_of_ones_own() -> None:
    mine = Target("mine", operations={"Add": (Condition.parse("rank <= 2", "Add"),)})
    assert mine.failures("Add", Facts({"rank": 3})) == ["rank <= 2: 3"]


def test_a_search_ends_where_a_stride_has_no_factor() -> None:
    """Strides 2 and 3, of which the device has 1 and 2; groups and a dilation come first."""
    model = Path(ird.__file__).parents[1] / "ir_samples/openvino/group_deconv.xml"
    assert "E421" in answer("lower", model, "--target", "ethos-n78", "--form", "auto", code=1).err


@each_row("pad", range(4))
def test_strides_by_copies_keep_the_size_of_the_output(pad: int) -> None:
    node = onnx.helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], strides=[16] * 2, pads=[pad] * 4, group=3
    )
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 2, 4])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    w = onnx.numpy_helper.from_array(np.ones((3, 1, 16, 16), np.float32), "w")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y], [w]))
    data = model.SerializeToString()
    try:
        low = ird.lower_onnx(data, target="max78000")
    except ird.TargetError:
        assert pad
        return
    assert ird.check_onnx(data, low.proto.SerializeToString()).passed
