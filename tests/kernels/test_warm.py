"""doctor --warm: what it compiles, for whom, and where that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irdeconv.cli.main import main
from irdeconv.kernels import jit, warm
from irdeconv.kernels.eager import for_convolution, for_deconvolution
from irdeconv.kernels.panels import own_tiles, step_name
from support.small_net import write_small_net

needs_numba = pytest.mark.skipif(not jit.available(), reason="needs numba")


@needs_numba
def test_the_layers_have_all_compiled_kernels() -> None:
    listed = {c.name for layer in warm.CONVOLUTIONS for c in for_convolution(layer)}
    assert listed >= {"direct", "depthwise", "winograd2"}
    listed = {c.name for layer in warm.DECONVOLUTIONS for c in for_deconvolution(layer)}
    assert "direct" in listed
    assert any(name.startswith("winograd") for name in listed)


@needs_numba
def test_a_model_is_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_small_net(tmp_path))
    assert main(["doctor", "--warm", path, path, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["warm"]
    assert found["models"] == [path, path]
    assert found["folder"] == jit.cache_folder()
    assert main(["doctor", "--warm", path, "-q"]) == 0
    assert "what these models take" in capsys.readouterr().out


@needs_numba
def test_all_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []
    monkeypatch.setattr(
        "irdeconv.kernels.compiled_records.compile_all", lambda more: done.append("calls")
    )
    monkeypatch.setattr(warm, "_run", lambda layer, candidate, shape: done.append(candidate.name))
    assert main(["doctor", "--warm"]) == 0
    assert {"calls", "direct", "depthwise"} <= set(done)
    assert "what kernels need" in capsys.readouterr().out


@needs_numba
def test_the_layers_run() -> None:
    for layer in (warm.CONVOLUTIONS[0], warm.CONVOLUTIONS[-1]):
        shape = layer.groups, layer.group_outputs, layer.group_inputs, *layer.kernel
        for candidate in for_convolution(layer):
            warm._run(layer, candidate, shape)
    layer = warm.DECONVOLUTIONS[0]
    shape = layer.groups, layer.group_inputs, layer.group_outputs, *layer.kernel
    for candidate in for_deconvolution(layer):
        warm._run(layer, candidate, shape)


@needs_numba
def test_calls_are_compiled_for_this_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from irdeconv.kernels import compiled_records as steps

    done: list[str] = []
    monkeypatch.setattr(steps, "_address", done.append)
    monkeypatch.setattr(warm, "CONVOLUTIONS", ())
    monkeypatch.setattr(warm, "DECONVOLUTIONS", ())
    warm.compile_kernels()
    taken = {n for n in done if n.startswith("tiles")}
    assert taken == {step_name(tile) for tile in own_tiles()}
    assert {"depthwise", "copy"} <= set(done)


def test_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "numba", None)
        assert main(["doctor", "--warm"]) == 4
        assert "E520" in capsys.readouterr().err
    if jit.available():
        monkeypatch.setenv("IRDECONV_FAST", "0")
        assert main(["doctor", "--warm"]) == 2
        assert "IRDECONV_FAST=0" in capsys.readouterr().err
