"""Times, errors and values on the graph page: what belongs to which layer, and the verbs."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.cli.main import main
from irdeconv.ops.activation import Elu
from irdeconv.runtime.measure import Ceilings
from irdeconv.verify.difference import TensorDifference
from shown import HEAD, Open, a_browser, a_page, data_of, named
from support.commands import Capture, Patch

IMAGE = np.random.default_rng(3).standard_normal((1, 3, 32, 32)).astype(np.float32)


@pytest.fixture(autouse=True)
def known_ceilings(monkeypatch: Patch) -> None:
    """Do not measure the machine, which takes seconds."""
    known = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
    monkeypatch.setattr("irdeconv.runtime.bench.measure_ceilings", lambda clock: known)


def test_a_step_gives_its_time_to_all_layers_that_it_covers() -> None:
    report = ird.bench(HEAD, IMAGE, iterations=2, rounds=1)
    page = ird.graph_page(report)
    assert [g.key for g in page.graphs] == ["before", "after"]
    (time,) = page.overlays
    for step in report.steps:
        assert {time.values[f"after/{i}"] for i in step.ids} == {report.time(step.timing)}
    fused = next(s for s in report.steps if len(s.nodes) > 1)
    said = " ".join(time.lines[f"after/{fused.ids[0]}"])
    assert f"kernel {fused.kernel}" in said
    assert f"One step computes {len(fused.nodes)} layers" in said
    for change in page.changes:
        steps = {s.index: s for s in report.steps for k in change.after if int(k[6:]) in s.ids}
        assert time.values[change.before[0]] == sum(report.time(s.timing) for s in steps.values())


def test_without_lowering_there_is_one_graph() -> None:
    report = ird.bench(HEAD, IMAGE, None, iterations=1, rounds=1)
    page = ird.graph_page(report)
    assert [g.key for g in page.graphs] == ["graph"]
    assert page.headline == f"{report.time(report.network) * 1e3:.3g} ms"


def test_the_first_layer_that_differs_is_marked_on_both_sides() -> None:
    a, b = ird.infer(ird.read(HEAD)), ird.infer(ird.read(HEAD))
    b.replace_op(named(b, "conv2/relu"), Elu(1.0))
    page = ird.graph_page(ird.compare(a, ird.infer(b), IMAGE))
    assert [g.title for g in page.graphs] == ["model", "other"]
    error, apart = page.overlays
    here, there = (f"{side}/{named(a, 'conv2/relu')}" for side in ("before", "after"))
    assert error.first == here
    assert error.marks[here] == "the first layer that differs"
    assert "the activation is Elu instead of ReLU" in error.lines[here][0]
    # What is behind it is off as well, but not by its own doing.
    later = f"before/{named(a, 'conv2')}", f"before/{named(a, 'up1')}"
    assert all((error.values[k] or 0) <= 1 for k in later)
    assert apart.values[later[1]] > 0.01
    assert error.values[there] == error.values[here] > 1
    assert page.headline.startswith("different: first at ReLU 'conv2/relu'")


def test_a_lowered_model_is_compared_with_its_source() -> None:
    g = ird.infer(ird.read(HEAD))
    low = ird.lower(g)
    error = ird.graph_page(ird.compare(g, low, IMAGE)).overlays[0]
    assert error.first is None
    assert error.marks == {}
    for name in ("up1", "up2"):
        assert (
            error.lines[f"before/{named(g, name)}"]
            == error.lines[f"after/{named(low.graph, name)}"]
        )


def test_saved_arrays_are_one_graph() -> None:
    wrong = {"deconv": np.zeros((1, 1, 5, 5), np.float32)}
    x = np.ones((1, 1, 3, 3), np.float32)
    page = ird.graph_page(ird.compare("ir_samples/openvino/deconv_3x3_to_5x5.xml", wrong, x))
    assert [g.key for g in page.graphs] == ["graph"]
    assert page.overlays[0].first is not None


def test_a_report_is_given_alone() -> None:
    report = ird.compare(HEAD, HEAD, IMAGE)
    with pytest.raises(UsageError, match="a report has its graphs"):
        ird.graph_page(report, HEAD)


@pytest.mark.parametrize(
    ("verb", "overlay"),
    [
        (["run", HEAD], "values"),
        (["compare", HEAD], "error"),
        (["bench", HEAD, "--iterations", "1", "--rounds", "1"], "time"),
    ],
)
def test_verbs_write_pages(verb: list[str], overlay: str, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "page.html"
    assert main([*verb, "--report", str(target)]) == 0
    data = data_of(target.read_text("utf-8"))
    assert data["overlays"][0]["key"] == overlay
    assert [o["key"] for o in data["overlays"][-3:]] == ["macs", "memory", "parameters"]
    assert [g["key"] for g in data["graphs"]] == ["before", "after"]
    assert f"wrote {target}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [target]


def test_values_of_a_lowered_layer_are_those_of_what_it_became(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    assert main(["run", HEAD, "--report", str(target)]) == 0
    data = data_of(target.read_text("utf-8"))
    for change in data["changes"]:
        assert data["values"][change["before"][0]] in change["after"]
        seen = data["overlays"][0]["values"]
        assert seen[change["before"][0]] == seen[data["values"][change["before"][0]]]


def test_a_report_does_not_replace_what_is_read(tmp_path: Path) -> None:
    x, page = tmp_path / "x.npy", tmp_path / "page.html"
    np.save(x, IMAGE)
    page.symlink_to(x)
    for verb in ("run", "compare", "bench"):
        assert main([verb, HEAD, "--input", f"image=@{x}", "--report", str(page)]) == 2
    save = str(tmp_path / "out.json")
    assert main(["bench", HEAD, "--save", save, "--report", save]) == 2
    assert main(["run", HEAD, "--input", f"image=@{x}", "--report", str(page), "--force"]) == 0
    assert x.read_bytes().startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("order", [1, -1])
def test_differences_of_infinity_and_nan_are_the_largest(order: int) -> None:
    node = named(ird.infer(ird.read(HEAD)), "conv2/relu")
    parts: dict[str, Any] = {
        "name": "y", "type_a": "f32", "type_b": "f32", "scale": 1.0, "worst": (0,),
        "shape_a": (1,), "shape_b": (1,), "node": node,
    }  # fmt: skip
    small = TensorDifference(**parts, max_abs=0.25, own=0.25, tolerance=1.0)
    odd = TensorDifference(**parts, max_abs=math.nan, own=math.inf, tolerance=math.inf)
    unknown = TensorDifference(**parts, max_abs=math.nan, own=math.nan, tolerance=1.0)
    for worst in (odd, unknown):
        assert not worst.passed
        tensors = (small, worst)[::order]
        result = replace(ird.compare(HEAD, HEAD, IMAGE), tensors=tensors)
        error, apart = ird.graph_page(result).overlays
        assert (error.values[f"before/{node}"], apart.values[f"before/{node}"]) == (
            math.inf,
            math.inf,
        )


def test_a_model_that_cannot_be_drawn_is_lowered_all_the_same(
    tmp_path: Path, capsys: Capture
) -> None:
    model = "ir_samples/onnx/upscaler.onnx"
    plain, page = (str(tmp_path / name) for name in ("a.onnx", "page.html"))
    reported = str(tmp_path / "b.onnx")
    code = main(["lower", model, "-o", plain])
    capsys.readouterr()
    assert main(["lower", model, "-o", reported, "--report", page]) == code == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "warning[E502]: com.example.Denoise" in said
    assert "is not written" in said
    assert Path(plain).read_bytes() == Path(reported).read_bytes()
    assert not Path(page).exists()


LINES = """all => all.map(s => {
  const text = new Range();
  text.selectNodeContents(s);
  return text.getClientRects().length;
})"""


FIXTURES = (a_browser, a_page)


@pytest.mark.browser
def test_a_path_breaks_behind_slashes_and_in_names_that_are_too_long(
    show: Open, tmp_path: Path
) -> None:
    file = tmp_path / f"{'a' * 90}.xml"
    ird.write(ird.read(HEAD), file)
    for model in (HEAD, file):
        shown = show(ird.read(model), hash="#up1")
        parts = shown.page.locator(".place span")
        assert re.search(rf"{Path(model).name}:\d+$", "".join(parts.all_inner_texts()))
        lines = parts.evaluate_all(LINES)
        assert (max(lines) > 1) == (model is file)
        place = shown.page.locator(".place").first
        assert place.evaluate("e => e.scrollWidth <= e.clientWidth")
