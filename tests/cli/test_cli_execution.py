"""Verbs that execute, and ONNX files on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.cli.options import measurements, size, whole
from support.commands import answer, command
from support.fixtures import Capture, Patch
from support.layers import build, numbers
from support.onnx_models import Layer
from support.small_net import LAYER, W

# Options that decide how a plan executes: --threads, --no-fuse, --tune, --max-memory, --trace.


def traced(net: Path, *args: object) -> list[dict[str, Any]]:
    return answer("run", net, "--trace", "--format", "json", *args).json["steps"]  # type: ignore


def types(steps: list[dict[str, Any]]) -> list[list[str]]:
    return [[layer["type"] for layer in step["layers"]] for step in steps]


@pytest.mark.parametrize(
    ("text", "bytes"),
    [("4096", 4096), ("1k", 1024), ("512M", 512 * 2**20), ("2G", 2**31), ("1.5GiB", 3 * 2**29),
     ("3 ", 3), ("7B", 7), ("1T", 2**40), ("0", 0), ("2mb", 2**21)],
)  # fmt: skip
def test_sizes(text: str, bytes: int) -> None:
    assert size(text) == bytes


@pytest.mark.parametrize("text", ["", "G", "-1", "1e9", "1.M", "1P", "٣", "0x10", "1 2"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        size(text)


def test_numbers_of_threads() -> None:
    parse = whole(1, 1024)
    assert [parse(t) for t in ("1", "16", "1024")] == [1, 16, 1024]
    for wrong in ("0", "-1", "1025", "two", "1.0", "", "99999999999999999999"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse(wrong)


def test_a_file_of_measurements_is_json() -> None:
    assert measurements("kernels.json") == "kernels.json"
    with pytest.raises(argparse.ArgumentTypeError, match="write --tune behind it"):
        measurements("x=ones")


def test_a_trace_tells_the_layers_of_each_step(net: Path) -> None:
    [step] = fused = traced(net)
    assert types(fused) == [["ZeroInsertion", "Pad", "Convolution"]]
    assert step["layers"][-1]["name"] == "deconv"
    assert step["kernel"].startswith("deconvolution ")
    assert step["why"]
    apart = traced(net, "--no-fuse")
    assert types(apart) == [["ZeroInsertion"], ["Pad"], ["Convolution"]]
    assert {s["kernel"] for s in apart} == {"evaluate"}
    assert types(traced(net, "--form", "none", "--no-fuse")) == [["ConvolutionBackpropData"]]
    assert types(traced(net, "--exact")) == types(apart)


def test_a_trace_beside_a_dump_is_of_single_layers(net: Path, tmp_path: Path) -> None:
    steps = traced(net, "--dump", "deconv", "--dump-dir", tmp_path / "dump")
    assert types(steps) == [["ZeroInsertion"], ["Pad"], ["Convolution"]]


def test_a_trace_is_a_log(net: Path) -> None:
    out, err = answer("run", net, "--trace")
    assert "step 0: deconvolution " in err
    assert ': ZeroInsertion "deconv/ZeroInsertion", Pad "deconv/Pad", Convolution "deconv"' in err
    assert "step" not in out
    quiet = answer("run", net, "--trace", "-q").err
    assert [line.split(": ")[0] for line in quiet.splitlines()] == ["step 0"]


def test_how_it_is_executed_does_not_change_results(net: Path) -> None:
    results = []
    for options in (["--threads", 1], ["--threads", 3], ["--tune"], ["--no-fuse"]):
        out = net.with_suffix(".npy")
        assert command("run", net, "x=arange", "-o", out, *options) == 0
        results.append(np.load(out))
    first, *others = results
    assert np.array_equal(first, others[0])
    for other in others[1:]:
        assert np.allclose(first, other, rtol=1e-5)


@pytest.mark.parametrize("options", [(), ("--no-fuse",), ("--form", "none"), ("--exact",)])
def test_memory_is_refused_before_running(net: Path, options: tuple[str, ...]) -> None:
    err = " ".join(answer("run", net, "--max-memory", "200", *options, code=5).err.split())
    assert "error[E602]: " in err
    assert "the limit is 200 " in err
    assert command("run", net, "--max-memory", "1G", *options) == 0


def test_inputs_beyond_the_limit_are_not_made(net: Path) -> None:
    text = net.read_text().replace('shape="1,3,4,4"', 'shape="1,3,100000,100000"')
    net.write_text(text.replace("<dim>4</dim>", "<dim>100000</dim>"))
    for verb in ("run", "bench"):
        err = answer(verb, net, "--max-memory", "1G", code=5).err
        assert "error[E602]: the inputs alone need 120,000,000,000 bytes" in err


def test_the_limit_counts_what_is_alive_at_once() -> None:
    """Node by node: x spread over 7 x 7, then padded to 9 x 9; the result takes 2 x 7 x 7."""
    x = numbers(np.random.default_rng(0), LAYER.data_shape, np.float32)
    graph, feeds = build(LAYER, x, W)
    spread, padded, out = 3 * 7 * 7, 3 * 9 * 9, 2 * 7 * 7
    alive = 4 * max(spread + padded, padded + out)
    with pytest.raises(ird.LimitError) as e:
        ird.run(graph, feeds, fuse=False, max_memory=alive)  # constants need memory as well
    assert e.value.exit_code == 5
    allowed = alive + 4 * W.size + 1024  # 1024 for rounding and the constants of Pad
    ird.run(graph, feeds, fuse=False, max_memory=allowed)


@pytest.mark.parametrize(
    "wrong", [["--threads", "0"], ["--max-memory", "lots"], ["--tune", "x=ones"]]
)
def test_options_that_do_not_fit(net: Path, wrong: list[str]) -> None:
    assert "error[E700]: --" in answer("run", net, *wrong, code=2).err


def test_tuning_without_anything_to_measure_is_said(net: Path, capsys: Capture) -> None:
    kept = net.parent / "kernels.json"
    assert command("run", net, "--tune", kept) == 0
    assert not kept.exists()
    assert f"{kept} is not written: no layer has several kernels" in capsys.readouterr().err


# `lower` and `check-certificate` on ONNX files: options, files, exit codes.

UP = Layer(data=(1, 4, 5, 6), filter=(4, 3, 4, 4), attributes={"strides": [2, 2], "pads": [1] * 4})


def test_lower_and_check_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path, out, proof = (str(tmp_path / n) for n in ("net.onnx", "low.onnx", "proof.json"))
    onnx.save(UP.model(), path)
    said = answer("lower", path, "--form", "stacked", "-o", out, "--certify", proof)
    assert "1 deconvolution of 1 lowered as stacked; 4 nodes" in said.out
    assert [Path(line.removeprefix("wrote ")).name for line in said.err.splitlines()] == [
        "low.onnx",
        "proof.json",
    ]
    assert main(["check-certificate", path, out, "--certificate", proof, "--probe"]) == 0
    assert "1 of 1 rewritten layers equal, 1 other unchanged" in capsys.readouterr().out
    changed = onnx.load(out)
    changed.graph.node[-1].op_type = "Abs"
    onnx.save(changed, out)
    assert 'FAIL Neg "last" is not the same' in answer("check-certificate", path, out, code=1).out
    assert main(["lower", path, "-o", str(tmp_path / "low.xml")]) == 0
    ird.read(tmp_path / "low.xml")


def test_a_page_draws_both_models(tmp_path: Path) -> None:
    path, page = str(tmp_path / "net.onnx"), tmp_path / "page.html"
    onnx.save(UP.model(), path)
    assert main(["lower", path, "--certify", "--report", str(page)]) == 0
    graphs = ird.read(path), ird.lower_onnx(path).proto
    changes = ird.graph_page(*graphs).changes
    assert len(changes) == 1
    assert len(changes[0].after) > 1
    assert f'"title":"{changes[0].title}"' in page.read_text("utf-8")
    assert '"certificate":"proved ' in page.read_text("utf-8")


def test_what_cannot_become_an_ir_can_be_lowered_as_it_is(tmp_path: Path) -> None:
    made = UP.model()
    made.graph.node.append(onnx.helper.make_node("TfIdfVectorizer", ["y"], ["d"]))
    made.graph.output[0].name = "d"
    path = str(tmp_path / "net.onnx")
    onnx.save(made, path)
    said = answer("lower", path, "-o", tmp_path / "low.xml", code=4).err
    assert "the operation is not covered" in said
    assert "-o NAME.onnx lowers the ONNX file itself" in said
    assert main(["lower", path, "-o", str(tmp_path / "low.onnx")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lower net.onnx -o net.onnx", "would overwrite the input"),
        ("lower net.onnx -o out.onnx --certify out.onnx", "would overwrite"),
        ("lower net.xml -o out.onnx", "is no ONNX model"),
        ("lower net.onnx -o out.onnx --form stakced", "no lowering form"),
        ("lower net.onnx -o out.onnx --shape q[1]", 'no input "q"'),
    ],
)
def test_refused(arguments: str, message: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(UP.model(), "net.onnx")
    ird.write(ird.convert("net.onnx"), "net.xml")
    before = sorted(p.name for p in tmp_path.iterdir())
    assert message in " ".join(answer(*arguments.split(), code=2).err.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == before
