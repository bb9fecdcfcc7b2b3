"""A target is a contract: what is written meets its conditions, or nothing is written."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.convolving import facts_of, operation_of
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.target_check import executed
from irdeconv.rewrite.targets import Target
from support.legal_layers import (
    Shapes,
    Subject,
    Written,
    ir_subject,
    onnx_subject,
    random_deconvolution,
    target_of,
    text_of,
)
from support.random_targets import random_subject, random_target
from support.sweeps import parts

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


def require_same_facts(low: Written) -> None:
    """The search and the check name the same facts of each layer that was written."""
    if low.subject.is_onnx:
        return
    graph = standardize(low.model)
    for _, node, name, facts in executed(graph):
        if not node.origins:
            continue
        inputs = graph.input_specs(node.id)
        constants = [
            s.known is not None or is_const(graph, node.id, i) for i, s in enumerate(inputs)
        ]
        ours = facts_of(node.op, inputs, node.spec(), constants)
        assert operation_of(node.op) == name
        for key, value in ours.values.items():
            if key not in ("has_bias", "constant_filter"):
                assert facts.values.get(key) == value, (low.subject.note, name, key)
        for key, row in ours.axes.items():
            if key in facts.axes:
                assert tuple(facts.axes[key]) == tuple(row), (low.subject.note, name, key)


def is_const(graph: Graph, node: int, port: int) -> bool:
    return graph.node(graph.inputs_of(node)[port].node).type == "Const"


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
    require_same_facts(found)
    return "lowered"


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
def test_the_command_writes_all_or_nothing(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def refusing(subject: Subject, folder: Path) -> tuple[Path, Path, Path]:
    model, out = saved(subject, folder)
    profile = folder / "none.toml"
    profile.write_text("[operations]\nReshape = []\n", encoding="utf-8")
    return model, out, profile


def small(*, onnx_file: bool, groups: int | None = None) -> Subject:
    rng = np.random.default_rng(5)
    shapes = Shapes(axes=(2,), grouped=groups is not None, stride=(2, 2), kernel=(2, 3))
    layer = random_deconvolution(rng, shapes)
    return (onnx_subject if onnx_file else ir_subject)(rng, layer)


@pytest.mark.parametrize("onnx_file", [False, True], ids=["IR", "ONNX"])
def test_refusals_have_numbers(
    onnx_file: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out, _ = refusing(small(onnx_file=onnx_file), tmp_path)
    profile = tmp_path / "wide.toml"
    rows = [f'{n} = ["inputs >= 100 * kernel_h"]' for n in ("Convolution", "GroupConvolution")]
    listed = [f"{n} = []" for n in ("Reshape", "Pad", "Slice", "Concat", "Transpose", "Add")]
    profile.write_text("\n".join(["[operations]", *rows, *listed]), encoding="utf-8")
    assert (
        main(["lower", str(model), "-o", str(out), "--target", str(profile), "--format", "json"])
        == 1
    )
    printed = capsys.readouterr()
    assert "E421" in printed.out + printed.err
    assert ">= 100 * " in printed.out + printed.err
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
    """A layer that is not chosen is not held to the conditions."""
    subject = small(onnx_file=onnx_file)
    low = subject.lower(target_of(listed=["Reshape"]), only="other*")
    assert not low.report.layers
    assert np.array_equal(low.run(), subject.want)
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


def test_convolutions_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from support.legal_layers import convolution_subject, random_convolution

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
    subject = small(onnx_file=False)
    low = subject.lower(target_of(name="mine"))
    assert low.report.target == "mine"
    json.dumps([r.to_dict() for r in low.report])
