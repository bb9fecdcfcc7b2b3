"""Verbs that run models, and formats of output."""

import argparse
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from PIL import Image

import irdeconv as ird
from irdeconv.base.errors import UsageError
from irdeconv.cli.console import Console
from irdeconv.cli.main import main
from irdeconv.cli.model import GENERATORS, gather, generate, typed
from irdeconv.cli.options import size, whole
from irdeconv.ir.dtypes import ELEMENT_TYPES, f32
from irdeconv.ir.graph import Graph
from irdeconv.ir.spec import Spec
from irdeconv.ops.basic import Parameter
from support.commands import Capture, Patch, answer, command
from support.ir_text import LAYER, W
from support.layers import build, numbers
from support.onnx_models import Layer
from support.rows import each_row

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


def test_a_device_has_no_suffix(net: Path) -> None:
    assert command("run", net, "-o", "/dev/null") == 0


def test_seed_is_printed_and_decides(net: Path, capsys: Capture) -> None:
    first = outputs(net)["y"]
    assert "input x: rand, seed 0" in capsys.readouterr().err
    assert np.array_equal(outputs(net, "x=rand", "--seed", "0")["y"], first)
    assert not np.array_equal(outputs(net, "--seed", "1")["y"], first)
    assert not np.array_equal(outputs(net, "randn")["y"], first)
    assert np.array_equal(outputs(net, "zeros")["y"], np.zeros_like(first))


def test_dump_into_the_npz(net: Path) -> None:
    got = outputs(net, "--dump", "deconv", "--form", "none")
    assert set(got) == {"y", "dump/deconv"}
    assert np.array_equal(got["dump/deconv"], got["y"])
    kinds = outputs(net, "--dump", "type:Convolution", "--dump", "type:Pad")
    assert len(kinds) == 3
    assert len(outputs(net, "--dump", "all")) > len(kinds)


def test_dump_into_a_folder(net: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    assert command("run", net, "--dump", "y", "--form", "none", "--dump-dir", folder) == 0
    [file] = folder.iterdir()
    assert file.name.endswith("_deconv.npy")
    assert np.load(file).shape == (1, 2, 7, 7)


def test_names_that_look_like_syntax() -> None:
    g = Graph()
    for name in ("a=b", "a", "file"):
        g.add(Parameter((2,), f32), name=name)
    got = gather(ird.infer(g), ["a=b=ones", "a=zeros", "file=arange"], 0, Console())
    assert [v.tolist() for v in got.values()] == [[1, 1], [0, 0], [0, 1]]


@each_row("kind", list(GENERATORS))
@each_row("name", [t for t in ELEMENT_TYPES if t != "string"])
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
    kind: str, name: str, monkeypatch: Patch
) -> None:
    spec = Spec(ELEMENT_TYPES[name], (3, 7, 5))
    whole = generate(kind, spec, 4, 2, "x")
    monkeypatch.setattr("irdeconv.runtime.feeds.MADE_AT_ONCE", 8)
    assert generate(kind, spec, 4, 2, "x").tobytes() == whole.tobytes()


def test_open_dimensions_are_filled(tmp_path: Path) -> None:
    net = "ir_samples/openvino/dynamic.xml"  # x[1,2,?,?]
    assert "input x: rand, seed 0, [1,2,4,4]" in answer("run", net, "--fill", 4).err
    np.save(tmp_path / "x.npy", np.ones((1, 2, 5, 6), np.float32))
    given = answer("run", net, tmp_path / "x.npy", "--fill", 4, "--format", "json").json
    assert given["outputs"]["deconv"]["shape"] == [1, 3, 10, 12]
    rows = {("x[1,2,?,7]", "4"): "f32[1,2,4,7]", ("x[1,2,6..9,..3]", "4"): "f32[1,2,6,3]"}
    for (shape, fill), wanted in rows.items():
        found = answer("infer", net, "--shape", shape, "--fill", fill, "--format", "json").json
        assert found["inputs"] == {"x": wanted}
    for verb in (
        ["compare"],
        ["explain"],
        ["inspect", "--lower"],
        ["simplify", "--check=irdeconv"],
    ):
        answer(*verb, net, "--fill", 4)
    resize = """<ir_version: 8, opset_import: ["": 13]>
        g (float[1,1,N,N] x) => (float[1,1,M,M] y) <float[4] s = {1, 1, 0.3, 0.3}> {
        y = Resize<coordinate_transformation_mode="asymmetric">(x, , s) }"""
    onnx.save(onnx.parser.parse_model(resize), tmp_path / "resize.onnx")
    assert "whose size is open" in answer("run", tmp_path / "resize.onnx", code=4).words
    for verb in ("run", "infer"):  # the importer needs the sizes
        assert "3, 3" in answer(verb, tmp_path / "resize.onnx", "--fill", 10).words.replace(
            ",3", ", 3"
        )


@each_row("name", [t for t in ELEMENT_TYPES if t not in ("string", "f8e8m0")])
def test_random_numbers_of_an_interval(name: str) -> None:
    dtype = ELEMENT_TYPES[name]
    for low, high in ((0, 1), (1, 1), *(((-2, 3),) if dtype.kind in ("int", "float") else ())):
        if dtype.is_integral and high >= 2 ** (dtype.bits - (dtype.kind == "int")):
            continue
        values = generate(f"rand({low},{high})", Spec(dtype, (600,)), 0, 0, "x").astype(float)
        assert low <= values.min() <= values.max() <= high
        if not dtype.is_real:
            assert {*values} == {*range(low, high + 1)}


def test_an_interval_that_cannot_be() -> None:
    for dtype, text in (
        ("u8", "rand(0,256)"),
        ("i32", "rand(0,1.5)"),
        ("u4", "rand(-1,1)"),
        ("f16", "rand(0,1e5)"),
        ("f8e8m0", "rand(0,1)"),
    ):
        with pytest.raises(UsageError, match="does not fit the element type"):
            generate(text, Spec(ELEMENT_TYPES[dtype], (3,)), 0, 0, "x")


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
def test_what_is_no_image(net: Path, content: bytes, capsys: Capture) -> None:
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
def test_a_format_of_one_graph_shows_the_lowered_one(net: Path, form: str, capsys: Capture) -> None:
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


# Verbs that execute, and ONNX files on the command line.


# Options that decide how a plan executes: --threads, --no-fuse, --tune, --max-memory, --trace.


def traced(net: Path, *args: object) -> list[dict[str, Any]]:
    return answer("run", net, "--trace", "--format", "json", *args).json["steps"]  # type: ignore


def types(steps: list[dict[str, Any]]) -> list[list[str]]:
    return [[layer["type"] for layer in step["layers"]] for step in steps]


@each_row(
    ("text", "bytes"),
    [("4096", 4096), ("1k", 1024), ("512M", 512 * 2**20), ("2G", 2**31), ("1.5GiB", 3 * 2**29),
     ("3 ", 3), ("7B", 7), ("1T", 2**40), ("0", 0), ("2mb", 2**21)],
)  # fmt: skip
def test_sizes(text: str, bytes: int) -> None:
    assert size(text) == bytes


@each_row("text", ["", "G", "-1", "1e9", "1.M", "1P", "٣", "0x10", "1 2"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        size(text)


def test_numbers_of_threads() -> None:
    parse = whole(1, 1024)
    assert [parse(t) for t in ("1", "16", "1024")] == [1, 16, 1024]
    for wrong in ("0", "-1", "1025", "two", "1.0", "", "99999999999999999999"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse(wrong)


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
    assert 'FAIL Negative "last" is a Abs' in answer("check-certificate", path, out, code=1).out
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
    hint = "-o NAME.onnx changes the ONNX file itself"
    assert hint in said
    assert main(["lower", path, "-o", str(tmp_path / "low.onnx")]) == 0
    # Not if that does not help.
    for words in (["lower", path, "--fuse"], ["lower", path, "--format", "ir"], ["raise", path],
                  ["simplify", path, "-o", str(tmp_path / "o.onnx")],
                  ["reduce", path, "--verb", "run", "-o", str(tmp_path / "o.xml")]):  # fmt: skip
        assert hint not in answer(*words, code=4).err, words
