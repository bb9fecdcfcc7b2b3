"""Comparison with saved arrays."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.formats.arrays import SavedArrays
from irdeconv.ops.activation import ReLU
from support.commands import Answer, answer
from support.fixtures import Capture, Patch
from support.layers import sequential
from support.networks import LAYERS, image, network


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.xml"
    ird.write(ird.infer(network()), path)
    np.save(tmp_path / "x.npy", image())
    return path


def layers(edit: dict[str, Any] | None = None) -> dict[str, np.ndarray]:
    """Every layer's first output, by its name."""
    found: dict[str, np.ndarray] = {}
    g = network(edit)
    ird.run(g, [image()], form=None, trace=lambda n, a: found.setdefault(n.name, a[0].copy()))
    return {n: found[n] for n in LAYERS}


def compare(net: Path, arrays: dict[str, np.ndarray], *more: str, code: int = 0) -> Answer:
    file = net.with_name("saved.npz")
    np.savez(file, **arrays)
    return answer("compare", net, file, "-i", f"x=@{net.with_name('x.npy')}", *more, code=code)


def test_what_run_dumps_can_be_compared(net: Path) -> None:
    x = f"x=@{net.with_name('x.npy')}"
    file = str(net.with_name("all.npz"))
    assert main(["run", str(net), x, "--dump", "all", "-o", file, "--form", "phases"]) == 0
    last = answer("compare", net, file, "-i", x, "--all").out.splitlines()[-1]
    # "up" is one with the Add of its bias.
    assert last == "the same: 1 output, 9 layers compared, 1 without a counterpart"


def test_an_output_that_is_a_layer_is_dumped_twice(tmp_path: Path) -> None:
    model, file = str(tmp_path / "m.xml"), str(tmp_path / "all.npz")
    ird.write(ird.infer(sequential((2, 3), ("y", ReLU()))), model)
    assert main(["run", model, "x=ones", "--dump", "all", "-o", file]) == 0
    saved = dict(np.load(file))
    assert {"y", "dump/y"} <= set(saved)
    assert "W500" not in answer("compare", model, file, "-i", "x=ones").err
    np.savez(file, **{**saved, "dump/y": saved["y"] + 1})
    assert "first at ReLU 'y'" in answer("compare", model, file, "-i", "x=ones", code=1).out


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ({"out": "out"}, "Sigmoid 'out'"),
        ({"out": "out:0"}, "Sigmoid 'out'"),
        ({"out": "arr_0"}, "Result 'out:0'"),
        ({"out": "out0"}, "Result 'out:0'"),
        ({"out": "output_0"}, "Result 'out:0'"),
        ({"out": "out0_0"}, "Result 'out:0'"),
        ({"out": "whatever"}, "Result 'out:0'"),
        ({"conv2": "conv2", "out": "out:0"}, "Convolution 'conv2'"),
        ({"conv2": "dump/conv2", "up": "dump/up:0"}, "Convolution 'conv2'"),
    ],
)
def test_names(net: Path, names: dict[str, str], first: str) -> None:
    good, bad = layers(), layers({"w1": lambda w: w * 1.5})
    right, wrong = ({s: found[n] for n, s in names.items()} for found in (good, bad))
    assert "without a counterpart" in compare(net, right).out
    assert f"first at {first};" in compare(net, wrong, code=1).out


def test_a_wrong_layer_among_saved_ones(net: Path) -> None:
    out = compare(net, layers({"w2": lambda w: np.flip(w, (2, 3))}), code=1).out
    assert "first at Convolution 'conv2'" in out
    assert "the kernel is flipped" in out


def test_arrays_that_stand_for_nothing(net: Path) -> None:
    good = layers()
    err = compare(net, {"up": good["up"], "upp": good["up"], "x": image()}).err
    assert "warning[W500]: " in err
    assert '"upp"' in err
    assert '"x"' not in err
    assert "E505" in compare(net, {"one": good["up"], "two": good["up"]}, code=2).err


def test_shapes_and_types(net: Path) -> None:
    up = layers()["up"]
    assert "(-1, 0) rows more at the end" in compare(net, {"up": up[:, :, :-1]}, code=1).out
    compare(net, {"up": up.astype(np.float64)})
    assert "W501" in compare(net, {"up": up.astype(np.int32)}, code=1).err
    compare(net, {"up": up.astype(np.float16)})
    compare(net, {"up": (up * 1.01).astype(np.float16)}, code=1)


def test_elements_that_no_tensor_has(net: Path) -> None:
    up = layers()["up"]
    for odd in (up + 0j, up + 1j, up.view("V4"), up.view("M8[s]")):
        assert "neither real numbers nor texts" in compare(net, {"up": odd}, code=2).err
    records = {"up": up.astype([("a", "f4")])}
    assert "records, not plain numbers" in compare(net, records, code=2).err


@pytest.mark.parametrize("name", ["y", "dump/y", "r", "arr_0"])
def test_bfloat16_has_no_name_in_npy(name: str, tmp_path: Path) -> None:
    g = ird.infer(sequential((2, 3), ("y", ReLU()), dtype=ml_dtypes.bfloat16, output="r"))
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    file = tmp_path / "saved.npz"
    np.savez(file, **{name: x})
    assert np.load(file)[name].dtype.kind == "V"
    assert ird.compare(g, file, [x]).passed
    np.savez(file, **{name: x + ml_dtypes.bfloat16(1)})
    assert not ird.compare(g, file, [x]).passed


def test_json(net: Path) -> None:
    found = compare(net, {"up": layers()["up"], "odd": image()}, "--format", "json").json
    assert (found["passed"], found["not_compared"]) == (True, 8)
    assert [d["code"] for d in found["diagnostics"]] == ["W500"]
    (tensor,) = found["tensors"]
    numbers = {"max_abs", "max_rel", "ulps", "cosine", "own", "own_at", "tolerance", "rule"}
    assert numbers <= set(tensor)


@pytest.mark.parametrize("shape", [b"(1, 2, 32,9**9", b"(-1, 2, 32, 3)", b"(9999999999, )"])
def test_damaged_headers(net: Path, shape: bytes, capsys: Capture) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros((1, 2, 32, 32), np.float32))
    assert len(shape) == len(b"(1, 2, 32, 32)")
    damaged = buffer.getvalue().replace(b"(1, 2, 32, 32)", shape)
    file = net.with_name("damaged.npz")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("up.npy", damaged)
    assert main(["compare", str(net), str(file)]) in (2, 5)
    assert "E505" in (err := capsys.readouterr().err) or "out of memory" in err


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06 cut", b"no zip at all"])
def test_files_that_are_no_archives(net: Path, content: bytes) -> None:
    file = net.with_name("bad.npz")
    file.write_bytes(content)
    assert "E505" in answer("compare", net, file, code=2).err
    assert main(["compare", str(net), str(net.with_name("none.npz"))]) == 6


def test_members_are_read_one_at_a_time(net: Path, monkeypatch: Patch) -> None:
    held: list[str] = []
    read = SavedArrays.__getitem__
    monkeypatch.setattr(
        SavedArrays, "__getitem__", lambda self, key: held.append(key) or read(self, key)
    )
    good = layers()
    file = net.with_name("saved.npz")
    np.savez(file, **dict(reversed(good.items())))
    assert ird.compare(network(), file, [image()]).passed
    assert held == [*LAYERS, "out"]  # in the order of execution; the last one is an output, too


def test_a_mapping_of_arrays() -> None:
    assert ird.compare(network(), layers(), [image()]).passed
    assert not ird.compare(network(), {"up": layers()["up"] + 1}, [image()]).passed
    with pytest.raises(ird.UsageError):
        ird.compare(network(), {"nobody": image()[:0], "else": image()}, [image()])


def test_without_openvino(net: Path, monkeypatch: Patch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openvino", None)
    err = answer("compare", net, "openvino", code=4).err
    assert "error[E520]" in err
    assert "pip install 'irdeconv[openvino]'" in err


def test_compare_arguments_that_do_not_fit(net: Path, capsys: Capture) -> None:
    for tolerance in ("-1", "nan", "inf"):
        assert main(["compare", str(net), "--tolerance", tolerance]) == 2
        assert f'--tolerance: "{tolerance}" is not a finite number' in capsys.readouterr().err
    for verb in ("compare", "check-certificate"):
        assert "stdin holds one model" in answer(verb, "-", "-", code=2).err
