"""`compare --reduce`: the first layer that differs as files that show the difference alone."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph
from irdeconv.ops.activation import ReLU
from support.mutants import with_input
from support.networks import image, network

FILES = {"layer.xml", "layer.bin", "inputs.npz", "outputs_a.npz", "outputs_b.npz", "report.json"}
PAIR = FILES | {"other.xml", "other.bin"}


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def tensors(graph: Graph) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ird.run(graph, [image()], form=None, trace=lambda n, a: found.update({n.name: a}))
    return found


def shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the commands of the report: each shows the difference. Return the report."""
    report = json.loads((folder / "report.json").read_text())
    assert set(report["files"]) | {"layer.bin", "report.json"} | (
        {"other.bin"} if "other.xml" in report["files"] else set()
    ) == {p.name for p in folder.iterdir()}
    monkeypatch.chdir(folder)
    for command in report["see_it"]:
        assert main(shlex.split(command)[1:]) == 1
    assert main(["compare", "layer.xml", "outputs_a.npz", "-i", "inputs.npz"]) == 0
    return report


def test_a_second_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs and outputs are the second model's; wrong layers before do not change that."""
    broken = network({"w2": lambda v: v[:, :, ::-1], "b3": lambda v: 0 * v})
    ird.compare(network(), broken, [image()], reduce=tmp_path / "new" / "piece")
    folder = tmp_path / "new" / "piece"
    assert {p.name for p in folder.iterdir()} == PAIR
    whole = tensors(broken)
    given = arrays(folder / "inputs.npz")["relu1:0"]
    np.testing.assert_allclose(given, whole["relu1"][0], rtol=1e-4, atol=1e-5)
    theirs = arrays(folder / "outputs_b.npz")["conv2"]
    np.testing.assert_allclose(theirs, whole["conv2"][0], rtol=1e-4, atol=1e-5)
    report = shown(folder, monkeypatch)
    assert report["layers"] == [{"name": "conv2", "type": "Convolution"}]
    assert "the kernel is flipped" in report["difference"]["kind"]
    (mine,) = arrays(folder / "outputs_a.npz").values()
    conv2 = tensors(network())["conv2"][0]
    np.testing.assert_allclose(mine, conv2, rtol=1e-5, atol=1e-5)  # all before it is right


@pytest.mark.parametrize("dumped", ["all", "conv2", "relu2"])
def test_saved_arrays(dumped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where layers are missing among the arrays, the piece begins at the last one before."""
    whole = tensors(network({"w2": lambda v: v[:, :, ::-1]}))
    names = ["relu1", "conv2", "relu2", "up"] if dumped == "all" else ["add1", dumped]
    saved = {name: whole[name][0] for name in names}
    ird.compare(network(), saved, [image()], reduce=tmp_path / "piece")
    assert {p.name for p in (tmp_path / "piece").iterdir()} == FILES
    report = shown(tmp_path / "piece", monkeypatch)
    left = {"all": ["conv2"], "conv2": ["relu1", "conv2"], "relu2": ["relu1", "conv2", "relu2"]}
    assert [n["name"] for n in report["layers"]] == left[dumped]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_wrong_lowering(swapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer on one side, the three that it became on the other."""
    whole = ird.infer(network())
    low = ird.lower(whole).graph
    pad = next(low.nodes("Pad"))
    begin = np.array(low.node(low.inputs_of(pad.id)[1].node).op.data.array())
    moved = with_input(low, pad, 1, begin - np.array([0, 0, 1, 0]))
    moved = with_input(moved, moved.node(pad.id), 2, begin + np.array([0, 0, 2, 1]))
    wrong = ird.infer(moved)
    sides = (wrong, whole) if swapped else (whole, wrong)
    ird.compare(*sides, [image()], reduce=tmp_path / "piece")
    report = shown(tmp_path / "piece", monkeypatch)
    several = [n.name for n in low.nodes() if n.origins == ("up",) and n.type != "Const"]
    names = [n["name"] for n in report["layers"]]
    assert (sorted(names) == sorted(several)) if swapped else (names == ["up"])


@pytest.mark.oracles
def test_openvino(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReLU.evaluate
    monkeypatch.setattr(ReLU, "evaluate", lambda self, x: real(self, x) + (x.shape[1] == 24))
    ird.compare(network(), "openvino", [image()], reduce=tmp_path / "piece")
    assert {p.name for p in (tmp_path / "piece").iterdir()} == FILES
    report = shown(tmp_path / "piece", monkeypatch)
    assert report["see_it"][0] == "irdeconv compare layer.xml openvino -i inputs.npz"
    assert [n["name"] for n in report["layers"]] == ["relu2"]
    mine, theirs = (arrays(tmp_path / "piece" / f"outputs_{s}.npz")["relu2"] for s in "ab")
    np.testing.assert_allclose(mine, theirs + 1, rtol=1e-6)
    import openvino

    model = openvino.Core().compile_model(str(tmp_path / "piece" / "layer.xml"), "CPU")
    alone = model(arrays(tmp_path / "piece" / "inputs.npz"))[0]
    np.testing.assert_array_equal(alone, theirs)


def test_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ird.write(network(), "net.xml")
    ird.write(network({"w3": lambda v: -v}), "other.xml")
    assert main(["compare", "net.xml", "net.xml", "--reduce", "piece"]) == 0
    assert not Path("piece").exists()
    assert main(["compare", "net.xml", "other.xml", "--reduce", "piece"]) == 1
    assert "wrote piece/report.json" in capsys.readouterr().err
    assert {p.name for p in Path("piece").iterdir()} == PAIR
    assert main(["compare", "net.xml", "other.xml", "--reduce", "."]) == 2
    assert "--reduce . would overwrite the input other.xml" in capsys.readouterr().err
    assert main(["compare", "net.xml", "other.xml", "--reduce", "net.xml"]) == 6
    assert "it is not a folder" in capsys.readouterr().err
