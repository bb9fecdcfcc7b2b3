"""The peers of `bench` compute what irdeconv computes; the verb `bench` from end to end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.runtime.measure import Ceilings
from irdeconv.runtime.peers import Source, difference, peers
from support.commands import Patch, answer
from support.ir_text import write_ir
from support.layers import Layer, build, expected, numbers, random_layer

pytest.importorskip("onnxruntime")
models: Any = pytest.importorskip("support.onnx_models")
pytestmark = pytest.mark.oracles

LAYER = Layer(1, (4, 4), None, 3, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1))
W = np.arange(54, dtype=np.float32).reshape(3, 2, 3, 3)


@pytest.fixture(autouse=True)
def ceilings(monkeypatch: Patch) -> None:
    found = Ceilings(gemm=80.0, gemm_all=150.0, copy=20.0, cores=2)
    monkeypatch.setattr("irdeconv.runtime.bench.measure_ceilings", lambda clock: found)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.xml"
    write_ir(path, LAYER, W)
    return path


def document(*args: object) -> Any:
    quick = ("--rounds", 1, "--time", 0, "--format", "json")
    return answer("bench", *args, *quick).json


@pytest.mark.parametrize("seed", range(8))
def test_a_single_deconvolution_as_conv_transpose(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    ran = 0
    for _ in range(12):
        layer = random_layer(rng)
        x = numbers(rng, layer.data_shape, np.float32)
        w = numbers(rng, layer.filter_shape, np.float32)
        graph, feeds = build(layer, x, w)
        window = layer.window()
        if min(layer.output_size) < 1:
            continue
        with peers(["onnxruntime"], Source(graph), feeds) as [peer]:
            if any(begin < 0 for begin, _ in window):
                assert peer.run is None
                assert "negative pads" in (peer.problem or "")
            elif peer.run is not None:
                ran += 1
                assert difference([expected(layer, x, w)], peer.run()) < 1e-5
            else:  # it wants less output padding than the stride
                extra = [b + s - layer.full(a) for a, (b, s) in enumerate(window)]
                limits = zip(layer.strides, extra, strict=True)
                assert any(e >= s for s, e in limits), peer.problem
    assert ran


def test_against_both(net: Path) -> None:
    found = document(net, "--against", "openvino,onnxruntime")
    assert found["schema"] == "irdeconv/bench/1"
    assert [p["name"] for p in found["peers"]] == ["openvino", "onnxruntime"]
    for peer in found["peers"]:
        assert peer["problem"] is None
        assert peer["timing"]["runs"] == 1
        assert peer["difference"] < 1e-5
        assert peer["ratio"] > 0
    assert (found["threads"], found["rounds"]) == (1, 1)
    [step] = found["steps"]
    assert [x["type"] for x in step["layers"]] == ["ZeroInsertion", "Pad", "Convolution"]
    assert step["macs"] == LAYER.products


def test_the_text(net: Path) -> None:
    quick = ("--rounds", 1, "--time", 0)
    out, err = answer("bench", net, "x=ones", *quick, "--against", "openvino", "--no-fuse")
    assert "3 slowest of 3 steps, shortest processor time" in out
    assert "SGEMM 512 cubed 80.0 GF/s on one thread, 150.0 on 2; copying 20.0 GB/s" in out
    assert "irdeconv / peer" in out
    assert "input x: ones, seed 0" in err


def test_a_reshaped_model(tmp_path: Path) -> None:
    write_ir(tmp_path / "open.xml", LAYER, W, data_shape=[-1, 3, -1, -1])
    shape = ("--shape", "x[2,3,5,6]")
    found = document(tmp_path / "open.xml", *shape, "--against", "openvino,onnxruntime")
    assert [p["problem"] for p in found["peers"]] == [None, None]
    assert found["steps"][0]["macs"] == 2 * 30 * W.size


def test_an_onnx_file(tmp_path: Path) -> None:
    helper = models.helper
    w = numbers(np.random.default_rng(0), (3, 2, 3, 3), np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["t"], strides=[2, 2]),
        helper.make_node("Tanh", ["t"], ["y"]),
    ]
    ends = [models.info("x", (1, 3, 4, 4))], [models.info("y", None)]
    path = tmp_path / "net.onnx"
    path.write_bytes(models.model(nodes, *ends, {"w": w}).SerializeToString())
    found = document(path, "--against", "openvino,onnxruntime")
    assert [p["problem"] for p in found["peers"]] == [None, None]
    assert max(p["difference"] for p in found["peers"]) < 1e-5


def test_an_ir_of_several_layers_is_nothing_for_onnxruntime() -> None:
    path = Path(__file__).resolve().parents[2] / "ir_samples/openvino/segmentation_head.xml"
    with pytest.raises(UsageError, match=r"name the \.onnx that the model was made of"):
        ird.bench(path, rounds=1, time=0.0, against=["openvino", "onnxruntime"])


def test_a_graph_without_a_file() -> None:
    graph, feeds = build(LAYER, numbers(np.random.default_rng(1), (1, 3, 4, 4), np.float32), W)
    [peer] = ird.bench(graph, feeds, rounds=1, time=0.0, against=["openvino"]).peers
    assert peer.problem is None
    assert peer.difference is not None
    assert peer.difference < 1e-5


def test_peers_run_on_one_thread(net: Path) -> None:
    two = ("--against", "openvino", "--threads", "2")
    assert "--threads 1" in answer("bench", net, *two, code=2).err
