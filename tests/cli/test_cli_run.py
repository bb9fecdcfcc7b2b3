"""Verbs that run models, and formats of output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

import irdeconv as ird
from irdeconv.cli.console import Console
from irdeconv.cli.inputs import GENERATORS, gather, generate, typed
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Parameter
from support.commands import answer, command

# `irdeconv run`: inputs of every kind, outputs, dumps.

X = np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)


def outputs(net: Path, *args: object, name: str = "out.npz") -> dict[str, Any]:
    out = net.with_name(name)
    assert command("run", net, "-o", out, *args) == 0
    with np.load(out) as archive:
        return dict(archive)


def expected(net: Path, x: Any) -> Any:
    return ird.run(ird.read(net), [x])["y"]


def test_npy_and_npz(net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "named.npz", x=X)
    np.savez(tmp_path / "ordered.npz", X)
    want = expected(net, X)
    for item in ("x=@{}/x.npy", "{}/x.npy", "@{}/x.npy", "{}/named.npz", "{}/ordered.npz"):
        got = outputs(net, item.format(tmp_path))
        assert list(got) == ["y"]
        assert np.array_equal(got["y"], want), item
    assert np.array_equal(outputs(net, "-i", f"x=@{tmp_path}/named.npz")["y"], want)
    direct = outputs(net, "--form", "none", f"{tmp_path}/x.npy")["y"]
    assert np.allclose(direct, want, rtol=1e-5)


def test_npy_output(net: Path, tmp_path: Path) -> None:
    assert command("run", net, "x=ones", "-o", tmp_path / "y.npy") == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected(net, np.ones_like(X)))


@pytest.mark.parametrize("name", ["y.txt", "y", "y.npz.gz", "y.NPZ"])
def test_a_suffix_that_names_no_format(net: Path, tmp_path: Path, name: str) -> None:
    assert ".npz or .npy" in answer("run", net, "-o", tmp_path / name, code=2).err
    assert not (tmp_path / name).exists()


def test_a_device_has_no_suffix(net: Path) -> None:
    assert command("run", net, "-o", "/dev/null") == 0


def test_seed_is_printed_and_decides(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = outputs(net)["y"]
    assert "input x: rand, seed 0" in capsys.readouterr().err
    assert np.array_equal(outputs(net, "x=rand", "--seed", "0")["y"], first)
    assert not np.array_equal(outputs(net, "--seed", "1")["y"], first)
    for wrong in ("-1", "1.5", ""):
        assert command("run", net, f"--seed={wrong}") == 2
    assert "from 0 on" in capsys.readouterr().err
    assert not np.array_equal(outputs(net, "randn")["y"], first)
    assert np.array_equal(outputs(net, "zeros")["y"], np.zeros_like(first))


def test_bad_inputs(net: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", X[:, :, 1:])
    np.save(tmp_path / "words.npy", np.array(["a"]))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "broken.npy").write_bytes(b"no array")
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    np.savez(tmp_path / "two.npz", a=X, b=X)
    cases = ["small.npy", "words.npy", "objects.npy", "broken.npy", "broken.npz", "two.npz"]
    for name in cases:
        assert command("run", net, f"x=@{tmp_path / name}") == 2, name
        assert command("run", net, tmp_path / name) == 2, name
    assert "given twice" in answer("run", net, "x=rand", "x=ones", code=2).err
    assert command("run", net, "x=@none.npy") == 6


def test_text_and_json(net: Path) -> None:
    captured = answer("run", net, "ones", "-q")
    assert captured.err == ""
    assert "[1, 2, 7, 7]" in captured.out
    found = answer("run", net, "--format", "json").json
    assert (found["schema"], found["seed"]) == ("irdeconv/run/1", 0)
    assert found["outputs"]["y"]["shape"] == [1, 2, 7, 7]


def test_dump_into_the_npz(net: Path) -> None:
    got = outputs(net, "--dump", "deconv", "--form", "none")
    assert set(got) == {"y", "dump/deconv"}
    assert np.array_equal(got["dump/deconv"], got["y"])
    kinds = outputs(net, "--dump", "type:Convolution", "--dump", "type:Pad")
    assert len(kinds) == 3
    everything = outputs(net, "--dump", "all")
    assert len(everything) > len(kinds)


def test_dump_into_a_folder(net: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    assert command("run", net, "--dump", "y", "--form", "none", "--dump-dir", folder) == 0
    [file] = folder.iterdir()
    assert file.name.endswith("_deconv.npy")
    assert np.load(file).shape == (1, 2, 7, 7)
    assert command("run", net, "--dump", "all") == 2  # nowhere to put it


def test_names_that_look_like_syntax() -> None:
    g = Graph()
    for name in ("a=b", "a", "file"):
        g.add(Parameter((2,), f32), name=name)
    got = gather(ird.infer(g), ["a=b=ones", "a=zeros", "file=arange"], 0, Console())
    assert [v.tolist() for v in got.values()] == [[1, 1], [0, 0], [0, 1]]


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("name", [t for t in ELEMENT_TYPES if t != "string"])
def test_generators_fit_every_element_type(kind: str, name: str) -> None:
    dtype = ELEMENT_TYPES[name]
    values = generate(kind, Spec(dtype, (3, 50)), 0, 0, "x")
    assert values.dtype == dtype.container
    assert values.shape == (3, 50)
    if dtype.is_packed and dtype.is_integral:
        top = 2 ** (dtype.bits - (dtype.kind == "int")) - 1
        assert -top <= int(values.min()) <= int(values.max()) <= top


@pytest.mark.parametrize("name", ["f32", "f16", "i8", "u4", "i64", "boolean"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_inputs_that_are_made_in_pieces_are_the_same(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Spec(ELEMENT_TYPES[name], (3, 7, 5))
    whole = generate(kind, spec, 4, 2, "x")
    monkeypatch.setattr("irdeconv.cli.inputs.MADE_AT_ONCE", 8)
    assert generate(kind, spec, 4, 2, "x").tobytes() == whole.tobytes()


def test_generated_inputs_differ_from_each_other() -> None:
    spec = Spec(f32, (8,))
    a, b = (generate("rand", spec, 0, i, "x") for i in (0, 1))
    assert not np.array_equal(a, b)


def test_bfloat16_from_npy(tmp_path: Path) -> None:
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", values)
    back = typed(np.load(tmp_path / "x.npy"), Spec(ELEMENT_TYPES["bf16"], (2,)))
    assert back.dtype == values.dtype
    assert back.tolist() == values.tolist()


def test_images_fill_the_input(net: Path) -> None:
    """2 x 2 pixels become 4 x 4, as Pillow resizes them, and 0..255 becomes 0..1."""
    cat = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20)
    cat.save(net.with_name("cat.png"))
    got = outputs(net, f"x=@{net.with_name('cat.png')}")["y"]
    pixels = np.asarray(cat.resize((4, 4)))
    x = pixels.transpose(2, 0, 1)[None] / np.float32(255)
    assert np.allclose(got, expected(net, x))


@pytest.mark.parametrize("content", [b"", b"just text", b"\x89PNG\r\n\x1a\nrest"])
def test_what_is_no_image(net: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    net.with_name("cat.png").write_bytes(content)
    assert command("run", net, f"x=@{net.with_name('cat.png')}") == 2
    assert "cat.png is no picture that can be read" in capsys.readouterr().err


# Formats that show a graph: inspect, and the verbs that rewrite one.


@pytest.mark.parametrize(
    ("format", "start"),
    [("dot", "digraph"), ("html", "<!DOCTYPE html>"), ("ir", "graph 1 "), ("svg", "<svg ")],
)
def test_inspect_formats(net: Path, format: str, start: str, tmp_path: Path) -> None:
    shown = answer("inspect", net, "--lower", "--format", format).out
    assert shown.startswith(start)
    out = tmp_path / "out"
    assert command("inspect", net, "--lower", "--format", format, "-o", out) == 0
    assert out.read_text() == shown


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "auto"])
def test_a_format_of_one_graph_shows_the_lowered_one(
    net: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    low = ird.lower(ird.infer(ird.read(net)), form).graph
    lowering = (net, "--lower", "--form", form)
    for options, graph in (([net], ird.infer(ird.read(net))), (lowering, low)):
        assert command("inspect", *options, "--format", "ir", "--constants") == 0
        comments = ird.inspect(graph).comments()
        assert capsys.readouterr().out == ird.dump(graph, elide=None, comments=comments)
        assert answer("inspect", *options, "--format", "dot").out == ird.inspect(graph).to_dot()
    assert '"key":"after"' in answer("inspect", *lowering, "--format", "html").out


def test_rewriting_verbs_print_the_emitted_graph(net: Path, tmp_path: Path) -> None:
    low, certificates = tmp_path / "low.xml", tmp_path / "proofs.json"
    lines = answer("inspect", net, "--lower", "--format", "ir").out.splitlines(keepends=True)
    shown = "".join(line for line in lines if not line.startswith("  // "))
    options = ("-o", low, "--certify", certificates, "--format", "ir")
    out, err = answer("lower", net, *options)
    assert out == shown
    assert "1 deconvolution of 1 lowered as zero-insertion" in err
    assert len(json.loads(certificates.read_text())["certificates"]) == 1
    out, err = answer("raise", low, "--format", "ir", "--certify", "-q")
    assert "ConvolutionBackpropData(%0" in out
    assert "ZeroInsertion" not in out
    assert err == ""


def test_inspect_json(net: Path) -> None:
    found = answer("inspect", net, "--lower", "--format", "json").json
    assert found["schema"] == "irdeconv/inspect/2"
    assert found["lowered"]["totals"]["deconvolutions"] == 0
