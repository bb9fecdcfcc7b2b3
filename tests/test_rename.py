"""Other names for layers and tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.extras import extra
from irdeconv.cli.main import main
from irdeconv.run.rename import rename
from support.networks import image, network


def named(graph: Any) -> list[str]:
    return [n.name for n in graph.nodes() if n.type != "Const"]


def tensors(graph: Any) -> list[str]:
    return [t for n in graph.nodes() for names in n.tensor_names for t in names]


def test_an_old_name_means_the_layer_and_the_tensor_that_have_it():
    g = network()
    g.find("up")[0].tensor_names = (("up", "b"),)
    new = rename(g, {"up": "deconv", "tensor:conv1:0": "first", "layer:relu1": "act"}).graph
    assert named(new) == [
        "x", "conv1", "add1", "act", "conv2", "relu2", "deconv", "add3", "split", "out", "y/sink",
    ]  # fmt: skip
    assert "first" in tensors(new)
    assert new.find("deconv")[0].tensor_names == (("deconv", "b"),)
    assert named(g)[6] == "up"


def test_names_may_be_exchanged_and_the_numbers_stay():
    g = network()
    done = rename(g, {"conv1": "conv2", "conv2": "conv1", "out:0": "mask"})
    assert [(c.kind, c.old, c.new) for c in done.changes] == [
        ("layer", "conv1", "conv2"), ("layer", "conv2", "conv1"), ("tensor", "out:0", "mask"),
    ]  # fmt: skip
    before, after = (ird.run(graph, [image()]) for graph in (g, done.graph))
    np.testing.assert_array_equal(after["mask"], before["out:0"])


def test_one_tensor_may_lose_a_name_to_another_of_its_own():
    g = network()
    g.find("up")[0].tensor_names = (("a", "b"),)
    assert rename(g, {"a": "b"}).graph.find("up")[0].tensor_names == (("b",),)


@pytest.mark.parametrize(("names", "message"), [
    ({"conv1": "conv2"}, '2 layers would be called "conv2": "conv1", "conv2"'),
    ({"conv1": "z", "conv2": "z"}, '2 layers would be called "z": "conv1", "conv2"'),
    ({"tensor:conv1:0": "out:0"}, '2 tensors would be called "out:0": "conv1:0", "out:0"'),
    ({"conv1": ""}, "layer \"conv1\": '' is no name"),
    ({"conv1": "a\nb"}, "layer \"conv1\": 'a\\nb' is no name"),
    ({"convx": "a"}, 'the model has no layer or tensor "convx"'),
])  # fmt: skip
def test_names_that_cannot_be_given(names: dict[str, str], message: str):
    with pytest.raises(ird.UsageError) as e:
        rename(network(), names)
    assert [d.message for d in e.value.diagnostics] == [message]


def test_a_pattern_applies_to_what_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    ird.write(ird.infer(network()), "net.xml")
    command = ["rename", "net.xml", r"--pattern=s/conv(\d)/c\1_/", "conv1=stem", "-o", "out.xml"]
    assert main(command) == 0
    assert "layer conv2 -> c2_\n" in capsys.readouterr().out
    new = ird.read("out.xml")
    assert named(new)[1::3] == ["stem", "c2_", "add3", "y/sink"]
    assert tensors(new)[:2] == ["c1_:0", "add1:0"]
    assert main([*command[:3], "--only", "tensors", "-o", "out.xml"]) == 0
    assert named(ird.read("out.xml"))[1] == "conv1"
    renamed = ird.rename("net.xml", pattern=("^", "net/"))
    assert renamed.outputs == ["net/out:0"]


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "nothing to rename"),
    (["conv1"], "not of the form OLD=NEW"),
    (["--pattern", "s/(/x/"], "is no regular expression"),
    (["--pattern", r"s/a/\4/"], "is no regular expression"),
    (["--pattern", "s/a/b"], "not of the form s/RE/NEW/"),
    (["--only", "layers", "a=b"], "--only says"),
    (["conv1=a", "conv1=b"], "renamed twice"),
])  # fmt: skip
def test_usage(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = tmp_path / "net.xml"
    ird.write(ird.infer(network()), model)
    assert main(["rename", str(model), *arguments, "-o", str(tmp_path / "out.xml")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.oracles
def test_openvino_reports_the_new_names(tmp_path: Path):
    core = extra("openvino", "Core").Core()
    g = network()
    g.find("x")[0].tensor_names = (("x",),)
    ird.write(
        rename(g, {"x": "photo", "out:0": "mask", "conv1": "stem=1"}).graph, tmp_path / "m.xml"
    )
    model = core.read_model(tmp_path / "m.xml")
    names = [[end.get_any_name() for end in ends] for ends in (model.inputs, model.outputs)]
    assert names == [["photo"], ["mask"]]
    assert "stem=1" in {n.get_friendly_name() for n in model.get_ordered_ops()}
