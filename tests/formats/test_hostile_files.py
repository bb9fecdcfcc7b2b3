"""Hostile files: what they hold, names and sizes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import OpError
from irdeconv.cli.main import main
from irdeconv.formats.models import import_model
from irdeconv.ir.op import Op, infer_op, lookup, parse_attributes
from irdeconv.ir.spec import Spec
from irdeconv.kernels import pooling
from irdeconv.ops import core
from irdeconv.rewrite import subpixel
from op_cases import count, f32, i64
from support.commands import Capture, Patch
from support.hostile import ANSWER, FOLDER, HostileCase, hostile_cases, write_cases
from support.memory import peak_of

# Hostile files: every command on them ends with the expected code, at the expected place.

CASES = hostile_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_answer(case: HostileCase, tmp_path: Path, capsys: Capture, update: bool) -> None:
    found = case.answer(tmp_path, capsys)
    assert found[0] != 70
    if update:
        case.row.update(zip(ANSWER, found, strict=True))
        write_cases([c.row for c in CASES])
    else:
        assert found == case.expected


def test_every_file_has_an_answer() -> None:
    asked = {Path(c.row["file"]).stem for c in CASES if "file" in c.row}
    assert {p.stem for p in (FOLDER / "files").iterdir()} <= asked
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names)


# Names that no IR can hold, in models of other formats: replaced, unique, with a warning.

BAD = ["\x1b[31mred", "_[31mred", "a\x00b", "a\x01b", "c\ud800", "d\uffff", "\x85"]


def dump(names: list[str]) -> bytes:
    """Return a chain of ReLUs as oneDNN Graph dumps it."""
    nodes = []
    for at, name in enumerate(names):
        tensors = [{"id": at + k, "dtype": "f32", "shape": [1, 2]} for k in (0, 1)]
        node = {"id": at, "name": name, "kind": "ReLU", "attrs": {}}
        nodes.append({**node, "inputs": tensors[:1], "outputs": tensors[1:]})
    return json.dumps({"version": "3.0.0", "graph": nodes}).encode()


def test_names_of_a_dump(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(dump(BAD))
    assert main(["convert", str(tmp_path / "x.json"), "-o", str(tmp_path / "x.xml")]) == 0
    assert main(["validate", str(tmp_path / "x.xml")]) == 0
    names = [n.name for n in ird.read(tmp_path / "x.xml").nodes() if n.type == "ReLU"]
    assert names == ["_[31mred_2", "_[31mred", "a_b", "a_b_2", "c_", "d_", "_"]


def test_each_name_has_a_warning() -> None:
    done = import_model(dump(["fine", *(f"{i}\x1b" for i in range(30))]))
    assert {d.code for d in done.diagnostics} == {"W103"}
    assert len(done.diagnostics) == 21
    assert r"'0\x1b' has characters that no IR can hold" in done.diagnostics[0].message


def test_names_of_an_onnx_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    info = [onnx.helper.make_tensor_value_info(n, 1, [2]) for n in ("x", "\x1b[31mred")]
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a\x01"], name="n\x07"),
        onnx.helper.make_node("Relu", ["a\x01"], ["\x1b[31mred"], name="n_"),
    ]
    graph = onnx.helper.make_graph(nodes, "g\x08", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    (tmp_path / "x.onnx").write_bytes(model.SerializeToString())
    assert main(["convert", str(tmp_path / "x.onnx"), "-o", str(tmp_path / "x.xml")]) == 0
    assert ird.validate(tmp_path / "x.xml") == []
    assert list(ird.read(tmp_path / "x.xml").outputs) == ["_[31mred"]


def test_no_text_is_written_that_cannot_be_read(tmp_path: Path) -> None:
    text = ird.dump(ird.read("ir_samples/openvino/deconv_3x3_to_5x5.xml"))
    for char in ("\\u001b", "\\u0085", "\\ud800", "\\ufffe"):
        graph = ird.parse(text.replace('"deconv"', f'"de{char}conv"'))
        with pytest.raises(ird.InputError) as e:
            ird.write(graph, tmp_path / "x.xml")
        (found,) = e.value.diagnostics
        assert (found.code, found.layer) == ("E701", json.loads(f'"de{char}conv"'))
        assert list(tmp_path.iterdir()) == []


# Sizes and places far out of range: what is made is never larger than the result.

HUGE = 2**40


def built(kind: str, version: str, **attributes: str) -> Op:
    cls = lookup(kind, version)
    assert cls is not None
    values, problems = parse_attributes(cls, attributes)
    assert problems == []
    return cls(**values)


def small(op: Op, *inputs: Any) -> Any:
    """Infer and evaluate; neither takes more than a megabyte."""

    def evaluated() -> Any:
        infer_op(op, tuple(t.spec for t in inputs))
        return op.evaluate(*(t.values for t in inputs))

    out, peak = peak_of(evaluated)
    assert peak < 1 << 20
    return out


@pytest.mark.parametrize("rates", [f"{HUGE},1", f"1,{HUGE}", f"{HUGE},{HUGE}"])
def test_patches_of_far_elements(rates: str) -> None:
    x = count((1, 1, 3, 3), 1)
    attributes = {"sizes": "3,3", "strides": "1,1", "rates": rates, "auto_pad": "same_upper"}
    out = small(built("ExtractImagePatches", "opset3", **attributes), x)
    np.testing.assert_array_equal(out[:, 4], x.values[:, 0])
    far = [k for k in range(9) if (rates[0] != "1" and k // 3 != 1)]
    far += [k for k in range(9) if (rates[-1] != "1" and k % 3 != 1)]
    assert not out[:, far].any()


def test_a_grid_without_cells() -> None:
    boxes = built("PriorBox", "opset8", min_size="4", offset="0.5")
    assert small(boxes, i64([2**31, 0]), i64([8, 9])).shape == (2, 0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_windows_of_many_outputs(size: int) -> None:
    for number in (1, 3, 4, 10**5):
        parts, which = pooling.windows(size, number)
        assert len(parts) <= min(2 * size, number)
        for o in (0, number // 3, number // 2, number - 1):
            want = slice(o * size // number, -(-(o + 1) * size // number))
            assert parts[which[o]] == want


def test_repeats_of_nothing() -> None:
    tile = built("Tile", "opset1")
    assert small(tile, count((2, 1)), i64([3, HUGE, 0])).shape == (3, 2 * HUGE, 0)


def test_parts_without_end() -> None:
    (found,) = built("Split", "opset1", num_splits=str(2**62)).problems()
    assert (found.code, found.attribute) == ("E601", "num_splits")


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_regions_that_are_nowhere(method: str, number: float) -> None:
    attributes = {"pooled_h": "2", "pooled_w": "2", "spatial_scale": "2", "method": method}
    op, x = built("ROIPooling", "opset2", **attributes), count((1, 1, 3, 3)).values
    for at in (0, 2):
        rois = f32([[0, 0, 0, 1, 1]]).values
        rois[0, at] = number
        with pytest.raises(OpError, match="which is not finite"):
            op.evaluate(x, rois)
    assert not op.evaluate(x, f32([[0, 3e38, 3e38, 3e38, 3e38]]).values).any()


def test_values_that_need_more_memory_than_there_is(monkeypatch: Patch) -> None:
    op = built("Sqrt", "opset1")

    def evaluate(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(type(op), "evaluate", evaluate)
    x = f32([4.0])
    assert infer_op(op, (x.spec,)) == (Spec(x.dtype, (1,)),)


@pytest.mark.parametrize(("stride", "pad"), [(1, HUGE - 1), (HUGE, 2 * HUGE - 4)])
def test_windows_far_larger_than_the_data(stride: int, pad: int) -> None:
    x = count((1, 1, 4, 4), 1)
    windows = {"kernel": f"{HUGE},1", "strides": f"{stride},1", "rounding_type": "floor"}
    pads = {"pads_begin": f"{pad},0", "pads_end": "0,0", "auto_pad": "explicit"}
    pool = built("MaxPool", "opset1", **windows, **pads)
    pool.evaluate(x.values)  # what is imported for it does not count
    np.testing.assert_array_equal(small(pool, x)[:, :, -1], x.values.max(axis=2))


def test_filters_of_far_taps_are_not_stacked() -> None:
    op = core.Deconvolution((2, 2), (HUGE, 1))
    pads, filter = i64([0, 0]).spec, count((1, 1, 1, 3, 3), 1).spec
    assert "folded_bytes" in subpixel.skip_stacked(op, filter, pads, pads).reason
