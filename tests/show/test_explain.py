"""Explanations of deconvolutions, and the table of systems."""

import re
from dataclasses import astuple, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import OpError
from irdeconv.cli.main import main
from irdeconv.ir.geometry import size_hint
from irdeconv.ir.graph import Value
from irdeconv.ops.core import Setting
from irdeconv.ops.dialect_openvino import ConvolutionBackpropData
from irdeconv.ops.dialect_template import Cannot, DialectSystem
from irdeconv.ops.elementwise import FakeQuantize
from irdeconv.rewrite.runtime_faults import FAULTS
from irdeconv.show.anatomy import picture
from irdeconv.show.systems import SEARCHED, SYSTEMS, _candidates, difference, find, rule, verdicts
from support import oracle
from support.commands import Capture, Patch, answer
from support.ir_text import write_ir
from support.layers import begun, build, constant, numbers, random_layer, result
from support.rows import each_row, parts, tables
from support.runtime_truth import outputs

TABLES = tables(__file__)

# Explanations: the terms, the pads' rule, the picture, what others compute, what gives a size.

SAMPLES = Path(__file__).resolve().parents[2] / "ir_samples"
SIZES = TABLES["sizes"]


def explained(sample: str, **options: Any) -> Any:
    return ird.explain(ird.read(SAMPLES / f"{sample}.xml"), **options)


def table(layer: Any) -> dict[str, str]:
    return {v.system: v.text for v in layer.verdicts}


def test_every_sample_has_its_published_size() -> None:
    names = {p.relative_to(SAMPLES).with_suffix("").as_posix() for p in SAMPLES.glob("*/*.xml")}
    left = {n for n in names if not n.startswith("broken/")} - set(SIZES)
    assert left == {"openvino/segmentation_head", "super_resolution/super_resolution"}
    for sample, size in SIZES.items():
        (layer,) = explained(sample).layers
        assert ",".join(map(str, layer.crop.size)) == size, sample
        assert table(layer)[layer.setting.system] == "the same numbers", sample
        text = str(explained(sample))
        for axis, o in zip(layer.axes, size.split(","), strict=True):
            assert axis.equation[1].endswith(f" = {o}")
            assert f"axis {axis.index}: O = {axis.equation[0]}" in text


def test_the_terms_of_the_specification() -> None:
    text = str(explained("openvino/deconv_224_to_447"))
    assert "O = 2*(224-1) + 1*(3-1)+1 - 1 - 1 + 0\n            = 446 + 3 - 1 - 1 + 0 = 447" in text
    assert "pads: as given" in text
    assert "drawn with 4 of 224 elements" in text


def test_the_total_and_its_odd_element() -> None:
    text = str(explained("openvino/same_upper_output_shape"))
    assert "total = max(FULL + op - O, 0) = max(10 + 0 - 9, 0) = 1; odd, the larger half at" in text
    assert "max(10 + 0 - 13, 0) = 0; nothing to split" in text
    text = str(explained("onnx/output_shape"))
    assert "output_shape takes precedence, split for auto_pad NOTSET" in text


def test_the_picture() -> None:
    assert picture(3, 3, 2, 1, 1, 1) == [
        "data        x0 .  x1 .  x2",
        "window   0  x0 .  x1 .  x2 0   . inserted zero, 0 padded (1 | 1)",
        "y0       -  w1 -                = x0*w1",
        "y1          w2 -  w0            = x0*w2 + x1*w0",
        "y2             -  w1 -          = x1*w1",
        "y3                w2 -  w0      = x1*w2 + x2*w0",
        "y4                   -  w1 -    = x2*w1",
        "phase 0 (y0, y2, y4): w1",
        "phase 1 (y1, y3): w0 w2",
    ]
    lines = picture(2, 1, 3, 1, 1, 0)
    assert "cropped (1 | 0)" in lines[1]
    assert lines[-2:] == ["phase 1 (y1): no tap, always 0", "phase 2 (y2): w0"]
    assert picture(None, 2, 1, 1, 0, 0)[0] == "drawn with 4 of ? elements"
    assert picture(3, 60, 1, 2, 0, 0)[0] == "(too wide to be drawn)"


@each_row("size", range(1, 9))
@each_row(("kernel", "stride"), [(1, 1), (3, 1), (5, 2), (8, 1), (12, 4), (7, 7)])
def test_the_picture_fits(size: int, kernel: int, stride: int) -> None:
    for begin in (-3, 0, 2):
        lines = picture(size, kernel, stride, 2, begin, 1)
        assert max(map(len, lines)) <= 78, lines


@pytest.mark.parametrize("seed", range(40))
def test_the_rows_of_the_picture_are_the_definition(seed: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr("irdeconv.show.anatomy.WIDTH", 200)  # all sums fit
    rng = np.random.default_rng([5, seed])
    size, kernel, stride, dilation = (int(v) for v in rng.integers(1, 5, 4))
    full = stride * (size - 1) + dilation * (kernel - 1) + 1
    begin = int(rng.integers(-1, full))
    output = int(rng.integers(1, 9))
    lines = picture(size, kernel, stride, dilation, begin, full - begin - output)
    x, w = 2 ** np.arange(size), 16 ** np.arange(kernel)
    y = oracle.deconvolution(
        x.reshape(1, 1, -1), w.reshape(1, 1, 1, -1), [stride], [dilation], [begin], [output]
    )
    rows = {line.split()[0]: line.split(" = ")[1] for line in lines if " = " in line}
    assert len(rows) == output
    for o in range(output):
        total = 0
        for term in rows[f"y{o}"].split(" + "):
            if term != "0":
                i, k = (int(part[1:]) for part in term.split("*"))
                total += int(x[i]) * int(w[k])
        assert total == y[0, 0, o]


@pytest.mark.parametrize(
    ("sample", "sizes"),
    [
        ("openvino/group_deconv", (10, 12)),
        ("onnx/output_padding", (10, 8)),
        ("onednn/xio_3x3_stride_2", (8, 7)),
        ("tensorrt/same_lower_groups", (3, 8)),
    ],
)
def test_what_gives_a_size(sample: str, sizes: tuple[int, int]) -> None:
    (layer,) = explained(sample, solve=sizes).layers
    found = layer.solutions
    assert found.wanted == sizes
    assert found.found
    assert found.complete
    assert all(s.crop.size == sizes for s in found.found)
    assert (f"and {found.more} more" in str(explained(sample, solve=sizes))) == bool(found.more)


def test_solutions_are_all_of_them_on_one_axis() -> None:
    (layer,) = explained("onnx/1d", solve=4).layers
    assert [s.attributes for s in layer.solutions.found] == [
        {"output_shape": "4"},
        {"auto_pad": "VALID", "output_shape": "4"},
        {"auto_pad": "SAME_UPPER", "output_shape": "4"},
        {"auto_pad": "SAME_LOWER", "output_shape": "4"},
        {"pads": "0,1"},
        {"pads": "1,0"},
    ]
    assert layer.solutions.more == 0


def one_axis(size: int, kernel: int, stride: int, dilation: int) -> Setting:
    return Setting(
        system="onnx", strides=(stride,), dilations=(dilation,), pads_begin=(0,), pads_end=(0,),
        size=(size,), kernel=(kernel,),
    )  # fmt: skip


@pytest.mark.parametrize("wanted", [1, 6, 30, 46, 50])
def test_pads_are_tried_in_the_order_of_their_costs(wanted: int) -> None:
    size, kernel, stride, dilation = 5, 9, 4, 3
    extent = (kernel - 1) * dilation + 1
    full = (size - 1) * stride + extent
    every = (
        (b + e + extra + 2 * abs(b - e), b, e, extra)
        for b in range(extent)
        for e in range(extent)
        for extra in range(max(stride, dilation))
        if full + extra - b - e == wanted
    )
    tried = islice(_candidates(one_axis(size, kernel, stride, dilation), wanted), SEARCHED + 1)
    assert [astuple(t) for t in tried] == sorted(every)


def test_the_cheapest_of_huge_pads_come_first() -> None:
    dilation = 2**31 - 1
    tried = _candidates(one_axis(3, 3, 1, dilation), 2 * dilation + 2)
    found = [astuple(t) for t in islice(tried, 4)]
    assert found == [(3, 0, 1, 0), (3, 1, 0, 0), (3, 1, 1, 1), (7, 0, 2, 1)]


def test_no_solution_and_wrong_questions() -> None:
    assert "none" in str(explained("tensorrt/deconv_3x3_to_5x5", solve=50))
    assert "not all known" in str(explained("openvino/dynamic", solve=8))
    with pytest.raises(ird.UsageError, match="3 wanted sizes for the 2 axes"):
        explained("onnx/pads", solve=[1, 2, 3])
    with pytest.raises(ird.UsageError, match="at least 1"):
        explained("onnx/pads", solve=0)


@pytest.mark.parametrize(
    "sample", ["onnx/default", "onednn/xio_3x3_stride_2", "openvino/deconv_3x3_to_5x5",
               "ort_nhwc/same_upper_odd_total", "tensorrt/deconv_3x3_to_5x5"],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["", "3", "3,3", "1,1,3", "1,1,3,3,3,3"])
def test_ranks_that_do_not_fit_are_explained(sample: str, shape: str, tmp_path: Path) -> None:
    """Data and filter of every rank: what their system says of it, and no failure."""
    text = (SAMPLES / f"{sample}.xml").read_text()
    for found in re.findall(r'shape="[0-9,]+"', text)[:2]:
        bad = tmp_path / "bad.xml"
        bad.write_text(text.replace(found, f'shape="{shape}"'))
        assert main(["explain", str(bad)]) in (0, 1, 3)


def test_a_layer_that_its_system_rejects() -> None:
    graph = ird.read(SAMPLES / "onnx/pads.xml")
    assert ird.explain(graph, "deconv", shapes={"x": "1,1,3,2"}).accepted
    found = ird.explain(graph, "deconv", shapes={"x": "1,1,1,1"})
    assert not found.accepted
    assert "rejected [E306]" in str(found)
    (rejected,) = found.layers
    assert rejected.crop is None
    assert (
        "the whole scatter has 3 elements, of which 2 + 2 are cut off; 2 in total leave 1"
        in str(rejected.hints)
    )
    assert rejected.to_dict()["rejected"]["code"] == "E306"


def test_what_the_file_declares() -> None:
    xml = (SAMPLES / "openvino/deconv_224_to_447.xml").read_text("utf-8").replace("447", "448")
    found = ird.explain(ird.read(xml.encode(), weights=False))
    hint = "the file declares 448 on axis 0: the output would be 447; output_padding=1 gives 448"
    assert found.layers[0].hints[0].startswith(hint)


def test_hints() -> None:
    assert size_hint(31, 32, extra=0, limit=2, pads=2) == (
        "the output would be 31; output_padding=1 gives 32; pads that are 1 less in total give 32"
    )
    assert size_hint(31, 30, extra=0, limit=2, pads=0).endswith("1 more in total give 30")
    assert size_hint(31, 40, extra=0, limit=2, pads=0).endswith("output_padding=1 gives 32 at most")
    assert size_hint(31, 40, extra=0, limit=0, pads=0) == "the output would be 31"
    assert size_hint(31, 40, extra=2, limit=None, pads=0).endswith("output_padding=11 gives 40")


def test_names() -> None:
    graph = ird.read(SAMPLES / "openvino/segmentation_head.xml")
    assert [e.name for e in ird.explain(graph).layers] == ["up1", "up2"]
    assert [e.name for e in ird.explain(graph, "up2").layers] == ["up2"]
    with pytest.raises(ird.UsageError, match='"joined" is a Concat; the deconvolutions are "up1"'):
        ird.explain(graph, "joined")
    with pytest.raises(ird.UsageError, match="did you mean"):
        ird.explain(graph, "up3")


def test_the_verb(capsys: Capture) -> None:
    file = str(SAMPLES / "onnx/autopad_same.xml")
    assert main(["explain", file, "deconv", "--solve", "7,6"]) == 0
    assert "attributes with which ONNX Runtime gives 7,6" in capsys.readouterr().out
    content = answer("explain", file, "--format", "json").json
    assert content["schema"] == "irdeconv/explain/1"
    (layer,) = content["layers"]
    assert layer["size"] == [6, 6]
    assert {s["system"] for s in layer["systems"]} == {s.key for s in SYSTEMS}
    assert main(["explain", str(SAMPLES / "onnx/pads.xml"), "--shape", "x[1,1,1,1]"]) == 1


@pytest.mark.parametrize("fake", [True, False])
def test_faults_of_runtimes_concern_quantized_layers(fake: bool) -> None:
    """The data of one model are quantized, those of the other are not."""
    g, x = begun((1, 2, 7))
    if fake:
        limits = [constant(g, np.float32(v), f"limit {k}") for k, v in enumerate((-2, 2, -2, 2))]
        x = Value(g.add(FakeQuantize(levels=256), [x, *limits], name="q").id)
    w = constant(g, np.ones((2, 2, 3), np.float32), "w")
    op = ConvolutionBackpropData((2,), (0,), (0,), (1,))
    result(g, Value(g.add(op, [x, w], name="deconv").id))
    found = ird.explain(g)
    names = ("pad-of-one", "zero-point-of-deconvolution") if fake else ()
    faults = [FAULTS[name] for name in names]
    assert list(found.layers[0].faults) == [str(f) for f in faults]
    assert ("known fault of OpenVINO CPU, int8 (2023.0.2" in str(found)) == fake
    assert found.to_dict()["layers"][0]["faults"] == [str(f) for f in faults]


def test_the_drawing_of_the_tutorial(update: bool, monkeypatch: Patch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    drawing = ird.explain("ir_samples/openvino/segmentation_head.xml", "up1").to_svg()
    file = Path("docs/images/deconvolution.svg")
    if update:
        file.write_text(drawing, "utf-8")
    assert file.read_text("utf-8") == drawing, "make golden draws it anew"


# What other systems would compute: by hand, and whether the live ones do.


def setting(**changes: Any) -> Setting:
    """One axis of I = 4, K = 3, S = 2: FULL = 9."""
    base = Setting(
        system="openvino_runtime", size=(4,), kernel=(3,), strides=(2,), dilations=(1,),
        pads_begin=(0,), pads_end=(0,), output_padding=(0,),
    )  # fmt: skip
    return replace(base, **changes)


OPENVINO, ONNX = "openvino_runtime openvino_document", "onnx_1 onnx_11 onnxruntime nhwc"
SAME, VALID = "tensorflow_same", "tensorflow_valid"
# What is set, and the systems by begin and size of their output, or by a part of the refusal.
TABLE: list[tuple[str, Setting, dict[Any, str]]] = [
    ("pads 1 | 1, output_padding 1",
     setting(pads_begin=(1,), pads_end=(1,), output_padding=(1,)),
     {(1, 8): f"{OPENVINO} onednn {ONNX} pytorch", "no output_padding": "tensorrt",
      (0, 8): SAME, (0, 9): VALID}),
    ("same_upper", setting(auto_pad="same_upper"),
     {(0, 9): f"{OPENVINO} {VALID}", (1, 8): "onnx_1", "no same_upper": "pytorch",
      (0, 8): f"onednn onnx_11 onnxruntime nhwc tensorrt {SAME}"}),
    ("same_lower", setting(auto_pad="same_lower"),
     {(0, 9): f"{OPENVINO} {VALID}", (0, 8): f"onnx_1 {SAME}", "no same_lower": "pytorch",
      (1, 8): "onednn onnx_11 onnxruntime nhwc tensorrt"}),
    ("output_shape 8, same_upper", setting(auto_pad="same_upper", output_shape=(8,)),
     {(1, 8): f"{OPENVINO} onnx_1", "no output_shape": "onednn tensorrt",
      (0, 8): f"onnx_11 onnxruntime nhwc {SAME}", "no same_upper": "pytorch",
      "must be 9 to 10": VALID}),
    ("output_shape 7, explicit pads 2",
     setting(output_shape=(7,), pads_begin=(2,), pads_end=(2,)),
     {(2, 7): "openvino_runtime", (1, 7): f"openvino_document {ONNX} {SAME}",
      "no output_shape": "onednn tensorrt", "5 to 6 are possible": "pytorch",
      "must be 9 to 10": VALID}),
    ("output_padding of a stride", setting(output_padding=(2,)),
     {(0, 11): OPENVINO, "of stride 2; it must be less than 2": f"onednn {ONNX}",
      "no output_padding": "tensorrt", "less than stride 2": "pytorch",
      (0, 8): SAME, (0, 9): VALID}),
    ("unequal pads", setting(pads_begin=(0,), pads_end=(1,)),
     {(0, 8): f"{OPENVINO} onednn {ONNX} tensorrt {SAME}", "same on both sides": "pytorch",
      (0, 9): VALID}),
    ("a kernel shorter than the stride",
     setting(kernel=(1,), strides=(3,), auto_pad="same_lower"),
     {(0, 10): f"{OPENVINO} onednn {ONNX} tensorrt", "no same_lower": "pytorch",
      (0, 12): f"{SAME} {VALID}"}),
    ("negative pads", setting(pads_begin=(-1,), pads_end=(-1,)),
     {(-1, 11): OPENVINO, "negative": f"onednn {ONNX} tensorrt", "is negative": "pytorch",
      (0, 8): SAME, (0, 9): VALID}),
]  # fmt: skip


@each_row(("what", "s", "expected"), TABLE)
def test_the_table_by_hand(what: str, s: Setting, expected: dict[Any, str]) -> None:
    s = s.on_axis(0, 2)
    own = find(s.system).crop(s)
    rows = {v.system: v for v in verdicts(s, own)}
    named = [(system, want) for want, systems in expected.items() for system in systems.split()]
    assert sorted(rows) == sorted(system for system, _ in named)
    assert set(rows) == {system.key for system in SYSTEMS}
    for system, want in named:
        row = rows[system]
        if isinstance(want, str):
            assert row.crop is None, system
            assert want in row.text, (system, row.text)
            assert row.kind in ("rejected", "inexpressible")
        else:
            assert row.crop is not None, (system, row.text)
            assert (row.crop.begin[0], row.crop.size[0]) == want, system
            assert row.same == (want == (own.begin[0], own.size[0]))


def test_one_dimension_is_not_for_tensorrt() -> None:
    s = setting()
    rows = {v.system: v for v in verdicts(s, find(s.system).crop(s))}
    assert rows["tensorrt"].kind == "rejected"
    assert "rank 3" in rows["tensorrt"].text


@pytest.mark.parametrize(
    ("own", "other", "kind", "words"),
    [
        ("onnx_11", "onnx_1", "shift", "shift by 1 at the begin (cuts off 1 more)"),
        ("onnx_1", "onnx_11", "shift", "shift by 1 at the begin (keeps 1 more)"),
        ("onnx_11", "openvino_runtime", "longer", "1 row extra at the end"),
        ("openvino_runtime", "onnx_11", "shorter", "1 row missing at the end"),
        ("onnx_1", "openvino_runtime", "size", "shift by 1 at the begin (keeps 1 more), size 9"),
    ],
)
def test_kinds_of_differences(own: str, other: str, kind: str, words: str) -> None:
    s = setting(auto_pad="same_upper")
    found, text = difference(find(own).crop(s), find(other).crop(s))
    assert (found, text[: len(words)]) == (kind, words)


def test_attributes_that_give_the_same_elsewhere() -> None:
    s = setting(pads_begin=(1,), pads_end=(1,), output_padding=(1,)).on_axis(0, 2)
    rows = {v.system: v for v in verdicts(s, find(s.system).crop(s))}
    assert rows["tensorrt"].instead == {"pre_padding": "1,1"}
    s = setting(auto_pad="same_lower", system="onnx_11")
    rows = {v.system: v for v in verdicts(s, find(s.system).crop(s))}
    assert rows["pytorch"].instead == {"padding": "1", "output_padding": "1"}
    assert rows["openvino_runtime"].instead == {"pads_begin": "1"}
    assert rows["tensorflow_same"].instead is None


@each_row("seed", range(30))
def test_the_rule_is_the_one_that_is_applied(seed: int) -> None:
    rng = np.random.default_rng([6, seed])
    for system in (*SYSTEMS[:8], find("nhwc_document"), find("onednn_document")):
        assert isinstance(system, DialectSystem)
        for auto_pad, shape in system.modes:
            s = setting(
                system=system.key, size=(int(rng.integers(1, 6)),), auto_pad=auto_pad,
                kernel=(int(rng.integers(1, 6)),), strides=(int(rng.integers(1, 5)),),
            )  # fmt: skip
            if shape:
                s = replace(s, output_shape=(int(s.full[0]) - int(rng.integers(-1, 4)),))
            s = s.on_axis(0, 2)
            try:
                crop = system.crop(s)
            except (Cannot, OpError):
                continue
            pads = rule(system.make(s)[0], s)
            if pads.larger_begin is not None:
                total = pads.totals[0].value
                begin = total - total // 2 if pads.larger_begin else total // 2
                assert begin == crop.begin[0], (system.key, s)


# Live peers -----------------------------------------------------------------------------------


@pytest.mark.oracles
@pytest.mark.parametrize("chunk", parts(1, 4))
def test_openvino_gives_what_the_table_says(chunk: int, tmp_path: Path) -> None:
    """The row of the runtime against the plugin, for layers of the document's reading."""
    rng, seen = np.random.default_rng([71, chunk]), set()
    for _ in range(12):
        layer = random_layer(rng)
        layer = replace(
            layer, groups=None, semantics="document", kernel=tuple(k + 1 for k in layer.kernel),
            pads_begin=tuple(map(abs, layer.pads_begin)),
            pads_end=tuple(map(abs, layer.pads_end)),
        )  # fmt: skip
        sizes = [replace(layer, semantics=s).output_size for s in ("runtime", "document")]
        if min(min(s) for s in sizes) < 1:
            continue
        x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
        graph, feeds = build(layer, x, w)
        rows = {v.system: v for v in ird.explain(graph).layers[0].verdicts}
        assert rows["openvino_document"].same
        write_ir(tmp_path / "net.xml", layer, w)
        mine = ird.run(graph, feeds, form=None, fuse=False)["y"]
        same = bool(np.array_equal(outputs(tmp_path / "net.xml", [x])[0], mine))
        assert same == rows["openvino_runtime"].same or not mine.any(), layer
        seen.add(same)
    assert seen


@pytest.mark.oracles
@pytest.mark.parametrize("chunk", parts(1, 4))
def test_onnxruntime_gives_what_the_table_says(chunk: int) -> None:
    """ONNX Runtime on OpenVINO's attributes: the same, something else, or a refusal."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    rng, seen = np.random.default_rng([72, chunk]), {}
    for _ in range(25):
        layer = random_layer(rng)
        layer = replace(
            layer, semantics="runtime", groups=1 if layer.groups is None else layer.groups,
            pads_begin=tuple(map(abs, layer.pads_begin)),
            pads_end=tuple(map(abs, layer.pads_end)),
        )  # fmt: skip
        if min(layer.output_size) < 1:
            continue
        x, w = (numbers(rng, s, np.float32) for s in (layer.data_shape, layer.filter_shape))
        graph, feeds = build(layer, x, w)
        (explained_layer,) = ird.explain(graph).layers
        row = next(v for v in explained_layer.verdicts if v.system == "onnxruntime")
        mine = ird.run(graph, feeds, form=None, fuse=False)["y"]
        theirs = deconvolved(layer, x, w)
        if theirs is None:
            assert row.kind == "rejected", layer
        else:
            same = bool(np.array_equal(theirs, mine))
            assert same == row.same or not mine.any(), (layer, row)
            assert theirs.shape[2:] == row.crop.size
        seen[row.kind] = seen.get(row.kind, 0) + 1
    assert seen["same"] >= 2
    assert len(seen) >= 3


def deconvolved(layer: Any, x: Any, w: Any) -> Any:
    """Return what ONNX Runtime computes from the attributes, None where it refuses them."""
    from onnx import helper

    from support.onnx_models import info, model, run_onnx

    explicit = layer.auto_pad == "explicit"
    attributes: dict[str, Any] = {
        "auto_pad": "NOTSET" if explicit else layer.auto_pad.upper(),
        "strides": layer.strides,
        "dilations": layer.dilations,
        "group": layer.groups or 1,
        "output_padding": layer.output_padding,
    }
    if explicit:
        attributes["pads"] = [*layer.pads_begin, *layer.pads_end]
    if layer.output_shape is not None:
        attributes["output_shape"] = layer.output_shape
    filter = w.reshape(-1, *w.shape[2:])
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    ends = [info("x", x.shape), info("w", filter.shape)], [info("y", [None] * x.ndim)]
    try:
        return run_onnx(model([node], *ends, opset=11), {"x": x, "w": filter})[0]
    except Exception as e:  # every class of its errors derives from Exception only
        if type(e).__module__.startswith("onnxruntime"):
            return None
        raise
