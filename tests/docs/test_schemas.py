"""JSON documents: tests/conftest.py holds all that are printed against their schemas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import irdeconv as ird
from irdeconv.cli.main import VERBS, verb_parser
from support.commands import command
from support.schemas import require_schema, schemas

HEAD = "ir_samples/openvino/segmentation_head.xml"


@pytest.mark.parametrize("name", schemas())
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schemas()[name])
    assert schemas()[name]["$id"] == f"{name}.json"


def test_every_verb_has_one() -> None:
    with_json = {
        verb
        for verb in VERBS
        if any("json" in (a.choices or ()) for a in verb_parser(verb)._actions)
    }
    assert with_json - schemas().keys() == set()


@pytest.mark.parametrize(
    "words",
    [
        ("validate", HEAD, "ir_samples/broken/typos.xml"),
        ("infer", "ir_samples/openvino/dynamic.xml"),
        ("inspect", HEAD, "--lower"),
        ("inspect", "--operations", "--only", "Loop"),
        ("explain", "ir_samples/openvino/deconv_3x3_to_5x5.xml", "--solve", "6"),
        ("explain", "ir_samples/broken/wrong_channels.xml"),
        ("compare", HEAD, "--form", "phases"),
        ("codes", "E302"),
        ("validate", "nothing.xml"),
    ],
    ids=" ".join,
)
def test_documents(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command(*words, "--format", "json")
    document = json.loads(capsys.readouterr().out)
    require_schema(document)
    for key in document:  # and what lacks a key, or has one too many, is refused
        if key != "schema":
            with pytest.raises(AssertionError):
                require_schema({k: v for k, v in document.items() if k != key} | {"odd": 1})


def test_outputs_without_finite_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "nan.npy"
    np.save(data, np.full((1, 1, 3, 3), np.nan, np.float32))
    model = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
    assert command("run", model, f"@{data}", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    require_schema(document)
    [output] = document["outputs"].values()
    assert output["min"] is output["max"] is output["mean"] is None
    assert output["non_finite"] > 0
    assert command("run", model, f"@{data}") == 0


def test_files(tmp_path: Path) -> None:
    lowered, proof = tmp_path / "lowered.xml", tmp_path / "proof.json"
    command("lower", HEAD, "--form", "stacked", "-o", lowered, "--certify", proof)
    suite = ird.suite(tmp_path / "suite", only=["openvino-edge-kernel-1"])
    outputs, piece = tmp_path / "outputs.npz", tmp_path / "piece"
    command("run", HEAD, "-o", outputs)
    with np.load(outputs) as arrays:
        np.savez(outputs, **{name: array + 1 for name, array in arrays.items()})
    assert command("compare", HEAD, outputs, "--reduce", piece) == 1
    for path in (proof, suite.folder / "manifest.json", piece / "report.json"):
        require_schema(json.loads(path.read_text()))
