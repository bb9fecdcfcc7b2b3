"""What other systems would compute: by hand, and whether the live ones do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import OpError
from irdeconv.ops.dialect_base import Setting
from irdeconv.ops.dialect_system import Cannot, DialectSystem
from irdeconv.show.systems import SYSTEMS, difference, find, rule, verdicts
from support.ir_text import write_ir
from support.layers import build, numbers, random_layer


def setting(**changes: Any) -> Setting:
    """One axis of I = 4, K = 3, S = 2: FULL = 9."""
    base = Setting(
        system="openvino_runtime", size=(4,), kernel=(3,), strides=(2,), dilations=(1,),
        pads_begin=(0,), pads_end=(0,), output_padding=(0,),
    )  # fmt: skip
    return replace(base, **changes)


TABLE: list[tuple[str, Setting, dict[str, Any]]] = [
    (
        "pads 1 | 1, output_padding 1",
        setting(pads_begin=(1,), pads_end=(1,), output_padding=(1,)),
        {
            "openvino_runtime": (1, 8), "openvino_document": (1, 8), "onednn": (1, 8),
            "onnx_1": (1, 8), "onnx_11": (1, 8), "onnxruntime": (1, 8), "nhwc": (1, 8),
            "pytorch": (1, 8), "tensorrt": "no output_padding",
            "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
    (
        "same_upper",
        setting(auto_pad="same_upper"),
        {
            "openvino_runtime": (0, 9), "openvino_document": (0, 9), "onednn": (0, 8),
            "onnx_1": (1, 8), "onnx_11": (0, 8), "onnxruntime": (0, 8), "nhwc": (0, 8),
            "tensorrt": (0, 8), "pytorch": "no same_upper",
            "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
    (
        "same_lower",
        setting(auto_pad="same_lower"),
        {
            "openvino_runtime": (0, 9), "openvino_document": (0, 9), "onednn": (1, 8),
            "onnx_1": (0, 8), "onnx_11": (1, 8), "onnxruntime": (1, 8), "nhwc": (1, 8),
            "tensorrt": (1, 8), "pytorch": "no same_lower",
            "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
    (
        "output_shape 8, same_upper",
        setting(auto_pad="same_upper", output_shape=(8,)),
        {
            "openvino_runtime": (1, 8), "openvino_document": (1, 8), "onednn": "no output_shape",
            "onnx_1": (1, 8), "onnx_11": (0, 8), "onnxruntime": (0, 8), "nhwc": (0, 8),
            "tensorrt": "no output_shape", "pytorch": "no same_upper",
            "tensorflow_same": (0, 8), "tensorflow_valid": "must be 9 to 10",
        },
    ),
    (
        "output_shape 7, explicit pads 2",
        setting(output_shape=(7,), pads_begin=(2,), pads_end=(2,)),
        {
            "openvino_runtime": (2, 7), "openvino_document": (1, 7), "onednn": "no output_shape",
            "onnx_1": (1, 7), "onnx_11": (1, 7), "onnxruntime": (1, 7), "nhwc": (1, 7),
            "tensorrt": "no output_shape", "pytorch": "5 to 6 are possible",
            "tensorflow_same": (1, 7), "tensorflow_valid": "must be 9 to 10",
        },
    ),
    (
        "output_padding of a stride",
        setting(output_padding=(2,)),
        {
            "openvino_runtime": (0, 11), "openvino_document": (0, 11),
            "onednn": "below the stride 2", "onnx_1": "less than 2", "onnx_11": "less than 2",
            "onnxruntime": "less than 2", "nhwc": "less than 2", "tensorrt": "no output_padding",
            "pytorch": "less than stride 2", "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
    (
        "unequal pads",
        setting(pads_begin=(0,), pads_end=(1,)),
        {
            "openvino_runtime": (0, 8), "openvino_document": (0, 8), "onednn": (0, 8),
            "onnx_1": (0, 8), "onnx_11": (0, 8), "onnxruntime": (0, 8), "nhwc": (0, 8),
            "tensorrt": (0, 8), "pytorch": "same on both sides",
            "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
    (
        "a kernel shorter than the stride",
        setting(kernel=(1,), strides=(3,), auto_pad="same_lower"),
        {
            "openvino_runtime": (0, 10), "openvino_document": (0, 10), "onednn": (0, 10),
            "onnx_1": (0, 10), "onnx_11": (0, 10), "onnxruntime": (0, 10), "nhwc": (0, 10),
            "tensorrt": (0, 10), "pytorch": "no same_lower",
            "tensorflow_same": (0, 12), "tensorflow_valid": (0, 12),
        },
    ),
    (
        "negative pads",
        setting(pads_begin=(-1,), pads_end=(-1,)),
        {
            "openvino_runtime": (-1, 11), "openvino_document": (-1, 11), "onednn": "no negative",
            "onnx_1": "no negative", "onnx_11": "no negative", "onnxruntime": "no negative",
            "nhwc": "no negative", "tensorrt": "no negative", "pytorch": "is negative",
            "tensorflow_same": (0, 8), "tensorflow_valid": (0, 9),
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "s", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_the_table_by_hand(what: str, s: Setting, expected: dict[str, Any]) -> None:
    s = s.on_axis(0, 2)
    own = find(s.system).crop(s)
    rows = {v.system: v for v in verdicts(s, own)}
    assert set(rows) == set(expected) == {system.key for system in SYSTEMS}
    for system, want in expected.items():
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


@pytest.mark.parametrize("seed", range(30))
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
@pytest.mark.parametrize("chunk", range(4))
def test_openvino_gives_what_the_table_says(chunk: int, tmp_path: Path) -> None:
    """The row of the runtime against the plugin, for layers of the document's reading."""
    ov = pytest.importorskip("openvino")
    rng, core, seen = np.random.default_rng([71, chunk]), ov.Core(), set()
    config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
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
        compiled = core.compile_model(core.read_model(tmp_path / "net.xml"), "CPU", config)
        mine = ird.run(graph, feeds, form=None, fuse=False)["y"]
        same = bool(np.array_equal(compiled({"x": x})[0], mine))
        assert same == rows["openvino_runtime"].same or not mine.any(), layer
        seen.add(same)
    assert seen


@pytest.mark.oracles
@pytest.mark.parametrize("chunk", range(4))
def test_onnxruntime_gives_what_the_table_says(chunk: int) -> None:
    """ONNX Runtime on OpenVINO's attributes: the same, something else, or a refusal."""
    ort, helper = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx.helper")
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
        theirs = run_onnx(ort, helper, layer, x, w)
        if theirs is None:
            assert row.kind == "rejected", layer
        else:
            same = bool(np.array_equal(theirs, mine))
            assert same == row.same or not mine.any(), (layer, row)
            assert row.crop is not None
            assert theirs.shape[2:] == row.crop.size
        seen[row.kind] = seen.get(row.kind, 0) + 1
    assert seen["same"] >= 2
    assert len(seen) >= 3


def run_onnx(ort: Any, helper: Any, layer: Any, x: Any, w: Any) -> Any:
    """Return what ONNX Runtime computes from the attributes, None where it refuses them."""
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
    info = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("x", x), ("w", filter))]
    out = helper.make_tensor_value_info("y", 1, [None] * x.ndim)
    graph = helper.make_graph([node], "g", info, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, {"x": x, "w": filter})[0]
    except Exception as e:  # every class of its errors derives from Exception only
        if type(e).__module__.startswith("onnxruntime"):
            return None
        raise
