"""`compare` against live OpenVINO: all layers agree, mistakes are found, pieces bound memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.op import REGISTRY
from irdeconv.verify import runtimes as peer
from support import onnx_models
from support.commands import Patch, answer
from support.layers import constant, parameter, result, sequential
from support.networks import image, network
from support.rows import parts
from support.scripts import script

pytestmark = pytest.mark.oracles


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.xml"
    ird.write(ird.infer(network()), path)
    np.save(tmp_path / "x.npy", image())
    return path


@pytest.mark.parametrize("nbytes", [1, 40000, 1 << 26])
def test_all_layers_agree_in_pieces_of_any_size(nbytes: int, monkeypatch: Patch) -> None:
    pieces: list[int] = []
    execute = peer.OpenVinoPartner._execute

    def counted(self, piece):  # type: ignore[no-untyped-def]
        pieces.append(len(piece))
        execute(self, piece)
        assert nbytes > 1 or len(self._kept) <= 3

    monkeypatch.setattr(peer, "PIECE_BYTES", nbytes)
    monkeypatch.setattr(peer.OpenVinoPartner, "_execute", counted)
    report = ird.compare(network(), "openvino", [image()])
    assert report.passed, report
    assert report.alone == 0
    assert [t.name for t in report.tensors if not t.output][-3:] == ["split", "split.1", "out"]
    assert sum(pieces) == 10
    assert len(pieces) == {1: 10, 1 << 26: 1}.get(nbytes, len(pieces))
    assert {t.type_b for t in report.tensors} >= {"Convolution", "ConvolutionBackpropData"}


def test_another_model_in_openvino(net: Path) -> None:
    x = ["-i", f"x=@{net.with_name('x.npy')}"]
    low, wrong = net.with_name("low.xml"), net.with_name("wrong.xml")
    ird.write(ird.lower(network(), "phases").graph, low)
    ird.write(ird.infer(network({"w2": lambda w: np.flip(w, (2, 3))})), wrong)
    assert "the same: 1 output, 10 layers compared" in answer("compare", net, "openvino", *x).out
    assert main(["compare", str(net), f"openvino:{low}", *x]) == 0
    out = answer("compare", net, f"openvino:{wrong}", *x, code=1).out
    assert "first at Convolution 'conv2'" in out
    assert "the kernel is flipped" in out


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_a_lowered_graph_in_openvino(form: str) -> None:
    report = ird.compare(ird.lower(network(), form).graph, "openvino", [image()])
    assert report.passed, report
    layer = "up" if form == "zero-insertion" else "add3"  # its convolution adds the bias
    up = next(t for t in report.tensors if t.name == layer)
    assert up.rule == ("gamma~_216 |W||x|" if form == "zero-insertion" else "exact")


def sums(graph: Graph, *nodes: tuple[str, str, tuple[str, ...]]) -> None:
    """Add nodes (name, type, what they read: nodes or numbers), in order; the last is a result."""
    known = {"x": parameter(graph, (4, 64), np.float32, "x")}
    for name, kind, reads in nodes:
        for number in set(reads) - set(known):
            known[number] = constant(graph, np.full((1, 1), float(number), np.float32), number)
        made = graph.add(REGISTRY[kind, "opset1"](), [known[r] for r in reads], name=name)
        known[name] = Value(made.id)
    result(graph, known[nodes[-1][0]], "y")


@pytest.mark.parametrize("middle", ["Erf", "Tanh"])
def test_what_openvino_fuses_past_results(middle: str) -> None:
    """Its GELU is off by roundings of 1 + erf, which the last product alone does not have."""
    graph = Graph()
    inner = [("d", "Multiply", ("x", "0.70710678"))]
    if middle == "Tanh":
        inner = [
            ("xx", "Multiply", ("x", "x")),
            ("xxx", "Multiply", ("xx", "x")),
            ("k", "Multiply", ("xxx", "0.044715")),
            ("s", "Add", ("x", "k")),
            ("d", "Multiply", ("s", "0.79788456")),
        ]
    last = [("e", middle, ("d",)), ("a", "Add", ("e", "1")), ("m", "Multiply", ("x", "a"))]
    sums(graph, *inner, *last, ("g", "Multiply", ("m", "0.5")))
    x = 2 * np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    report = ird.compare(ird.infer(graph), "openvino", [x])
    assert report.passed, report
    assert report.alone == 0


def test_erf_near_0() -> None:
    """OpenVINO's polynomial is off by 5e-7 there, where the result is small."""
    graph = Graph()
    sums(graph, ("e", "Erf", ("x",)))
    x = np.linspace(-0.1, 0.1, 1 << 16, dtype=np.float32).reshape(-1, 64)
    report = ird.compare(ird.infer(graph, shapes={"x": x.shape}), "openvino", [x])
    assert report.passed, report


def test_other_input_shapes(net: Path) -> None:
    assert main(["compare", str(net), "openvino", "--shape", "x[2,3,9,7]"]) == 0


def test_what_openvino_refuses(net: Path) -> None:
    text = net.read_text().replace('type="Sigmoid"', 'type="Sigmoidal"')
    (odd := net.with_name("odd.xml")).write_text(text)
    odd.with_suffix(".bin").write_bytes(net.with_suffix(".bin").read_bytes())
    assert "E506" in answer("compare", net, f"openvino:{odd}", code=4).err
    assert "E100" in answer("compare", net, f"openvino:{odd.with_name('none.xml')}", code=6).err


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("nbytes", [1, 1 << 26])
def test_every_floating_point_type(
    dtype: type, nbytes: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    """OpenVINO hands out bf16 as the bits of f16, and computes f64 in single precision."""
    monkeypatch.setattr(peer, "PIECE_BYTES", nbytes)
    rng = np.random.default_rng(5)
    wrong = rng.standard_normal((3, 2, 4, 3)).astype(dtype)
    right = wrong.copy()
    wrong[1, 1, 2, 0] += wrong.dtype.type(0.125)
    op = REGISTRY["ConvolutionBackpropData", "opset1"](strides=(2, 2), pads_begin=(1, 0))
    relu = "r", REGISTRY["ReLU", "opset1"]()
    graphs = [
        ird.infer(sequential((1, 3, 6, 5), ("deconv", op, {"w": w}), relu, dtype=dtype))
        for w in (right, wrong)
    ]
    feeds = [rng.standard_normal((1, 3, 6, 5)).astype(dtype)]
    ird.write(graphs[1], tmp_path / "wrong.xml")
    for graph in (graphs[0], ird.lower(graphs[0], "phases").graph):
        report = ird.compare(graph, "openvino", feeds)
        assert report.passed, report
        assert not report.diagnostics
    report = ird.compare(graphs[0], f"openvino:{tmp_path / 'wrong.xml'}", feeds)
    assert report.first_difference.name == "deconv"


# Lowered files changed in one way each: the checker never says equal of what is not.


TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.mark.parametrize("numbers", parts(1, ["--count 12 --seed 12", "--count 500 --seed 13"]))
def test_openvino_agrees_with_the_checker(numbers: str) -> None:
    """Mutants in processes of their own: of some the runtime dies."""
    command = [sys.executable, str(TOOLS / "mutate_lowered.py"), "--core", *numbers.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    for truth in ("other values", "other interface", "invalid"):
        assert f"accepted, {truth}: 0\n" in done.stdout, done.stdout
    assert "crashed: 0\n" in done.stdout, done.stdout


def test_too_many_refusals_fail() -> None:
    """More than 2 % of the equal ones, but for those that stay refused."""
    tool = script("mutate_lowered")

    def equal(kind: str, text: str, verdict: str) -> object:
        return tool.Outcome(kind, f"--seed 0 0:0 {text}", tool.EQUAL, verdict)

    found = [equal("layers", "pads", tool.ACCEPTED)] * 98
    meant = [equal("values", "", tool.REFUSED), equal("wires", "Abs before y", tool.REFUSED)]
    refused = equal("layers", "pads", tool.REFUSED)
    assert tool.report([*found, *meant, refused]) == 0
    assert tool.report([*found, *meant, *[refused] * 3]) == 1


def onnx_network(fault: str = "") -> Any:
    """Convolutions as exporters leave them, with HSwish from Clip, perhaps with one fault."""
    rng = np.random.default_rng(3)
    shapes = {"w": (8, 3, 3, 3), "v": (8, 2, 3, 3), "u": (8, 5, 4, 4)}
    weights = {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    four = {k: rng.random(8).astype(np.float32) + 0.5 for k in ("g", "b", "m", "s")}
    scalars = {"three": np.float32([3]), "low": np.float32(0), "six": np.float32(6)}
    if fault == "flipped":
        weights["v"] = np.ascontiguousarray(weights["v"][..., ::-1])
    if fault == "weight":
        weights["w"][4, 1, 1, 1] *= 1.01
    nodes = [
        onnx_models.node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        onnx_models.node("BatchNormalization", "c g b m s", "n"),
        onnx_models.node("Add", "n three", "a"),
        onnx_models.node("Clip", "a low six", "h"),
        onnx_models.node("Mul", "n h", "p"),
        onnx_models.node("Div", "p six", "q"),
        onnx_models.node("Conv", "q v", "d", pads=[1, 1, 1, 1], group=4),
        onnx_models.node("Mul", "d g4", "e"),
        onnx_models.node(
            "ConvTranspose",
            "e u",
            "t",
            strides=[2, 2],
            pads=[0, 1, 2, 1] if fault == "shifted" else [1, 1, 1, 1],
        ),
        onnx_models.node("Sigmoid", "t", "y"),
    ]
    given = weights | four | scalars | {"g4": four["g"].reshape(8, 1, 1)}
    x = onnx_models.info("x", (1, 3, 16, 24))
    return onnx_models.model(nodes, [x], ["y"], given)


FAULTS = {"": "", "flipped": "d", "weight": "c", "shifted": "t"}


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("fault", FAULTS)
def test_onnx_files_in_both_runtimes(runtime: str, fault: str, tmp_path: Path) -> None:
    files = [tmp_path / "right.onnx", tmp_path / "other.onnx"]
    for file, kind in zip(files, ("", fault), strict=True):
        file.write_bytes(onnx_models.typed(onnx_network(kind)).SerializeToString())
    x = np.random.default_rng(0).random((1, 3, 16, 24), dtype=np.float32)
    report = ird.compare(files[1], f"{runtime}:{files[0]}", x)
    assert report.passed == (not fault), report
    first = report.first_difference
    if first is not None:
        assert FAULTS[fault] in report.graph.node(first.node).names_of(0)
    assert main(["compare", str(files[1]), runtime]) == 0
    of_file = ird.compare(files[1], f"{runtime}:{files[1]}", x)
    assert ird.compare(files[1], runtime, x).tensors == of_file.tensors


def test_what_openvino_does_not_read_is_written_for_it(tmp_path: Path) -> None:
    shape = "<dim>1</dim><dim>3</dim>"
    (file := tmp_path / "old.xml").write_text(
        f"""<net name="old" version="7"><layers>
        <layer id="0" name="x" precision="FP32" type="Input"><output><port id="0">{shape}</port>
        </output></layer>
        <layer id="1" name="y" precision="FP32" type="ReLU"><input><port id="0">{shape}</port>
        </input><output><port id="1">{shape}</port></output></layer>
        </layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>
        """
    )
    assert main(["compare", str(file), "openvino"]) == 0
    assert ird.compare(file, "openvino", np.ones((1, 3), np.float32))


ROUNDED_ONCE = {
    "dequantized": [("QuantizeLinear", "x s z", "q"), ("DequantizeLinear", "q s z", "y")],
    "rotary": [
        ("Transpose", "x", "t"), ("Slice", "t b0 b4 ax", "a"), ("Slice", "t b4 end ax", "b"),
        ("Neg", "b", "n"), ("Concat", "n a", "r"), ("Mul", "t c", "u"), ("Mul", "r d", "v"),
        ("Add", "u v", "y"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ROUNDED_ONCE)
def test_sums_of_products_that_openvino_rounds_once(kind: str, tmp_path: Path) -> None:
    options = {"Transpose": {"perm": (0, 2, 1, 3)}, "Concat": {"axis": -1}}
    nodes = [onnx_models.node(t, i, o, **options.get(t, {})) for t, i, o in ROUNDED_ONCE[kind]]
    angles = np.float32(np.outer(np.arange(9), 10.0 ** -np.arange(8) / 2))[None, None]
    known = {"s": np.float32(0.00507811), "z": np.uint8(31), "c": np.cos(angles)}
    known |= {"d": np.sin(angles), "b0": [0], "b4": [4], "end": [2**63 - 1], "ax": [3]}
    used = {name: known[name] for name in known if any(name in n.input for n in nodes)}
    ends = [onnx_models.info("x", (1, 9, 4, 8))], ["y"]
    made = onnx_models.typed(onnx_models.model(nodes, *ends, used, opset=20))
    (path := tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    x = np.random.default_rng(0).random((1, 9, 4, 8), dtype=np.float32)
    report = ird.compare(path, f"openvino:{path}", x)
    assert report.passed, report


def test_onnxruntime_needs_an_onnx(net: Path) -> None:
    assert "onnxruntime:FILE.onnx" in answer("compare", net, "onnxruntime", code=2).err
    assert "is no .onnx" in answer("compare", net, f"onnxruntime:{net}", code=2).err


def test_maps_of_probabilities_are_their_tensor(tmp_path: Path) -> None:
    """ONNX Runtime returns a map for each row, in the order of its labels."""
    node = onnx_models.node("ZipMap", "x", "y", domain="ai.onnx.ml", classlabels_int64s=[7, 5, 6])
    model = onnx_models.model([node], [onnx_models.info("x", (4, 3))], ["y"])
    model.opset_import.add(domain="ai.onnx.ml", version=3)
    (path := tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    report = ird.compare(path, "onnxruntime", np.arange(12, dtype=np.float32).reshape(4, 3))
    assert report, report
    assert [(t.name, t.max_abs) for t in report.outputs] == [("y", 0)]


def test_names_of_onnx_nodes_with_several_outputs(tmp_path: Path) -> None:
    """OpenVINO gives the node's name to the layer of the last output, the zero point."""
    quantize = onnx_models.node("DynamicQuantizeLinear", "x", "q s z")
    nodes = [quantize, onnx_models.node("DequantizeLinear", "q s z", "y")]
    model = onnx_models.model(nodes, [onnx_models.info("x", (1, 3, 4, 4))], ["y"])
    (path := tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    x = np.random.default_rng(0).random((1, 3, 4, 4), dtype=np.float32)
    report = ird.compare(path, f"openvino:{path}", x)
    assert report, report
    seen = [report.graph.node(t.node).names_of(0) for t in report.tensors if not t.output]
    assert {n for names in seen for n in names} >= {"q", "s", "z"}


@pytest.mark.parametrize(("scale", "passed"), [(0.018099016, True), (0.018101, False)])
def test_openvino_rounds_where_it_quantizes(scale: float, passed: bool, tmp_path: Path) -> None:
    """Its FakeQuantize adds the zero point before it rounds, which moves values close to a tie."""
    nodes = [onnx_models.node(*n) for n in ROUNDED_ONCE["dequantized"]]
    files = [tmp_path / "right.onnx", tmp_path / "other.onnx"]
    for file, s in zip(files, (0.018099016, scale), strict=True):
        constants = {"s": np.float32(s), "z": np.uint8(119)}
        made = onnx_models.model(nodes, [onnx_models.info("x", (1, 1, 21, 201))], ["y"], constants)
        file.write_bytes(made.SerializeToString())
    ties = (np.arange(-100, 101) + 0.5) * 0.018099016
    x = (ties * (1 + np.arange(-10, 11)[:, None] * 1e-7)).astype(np.float32)[None, None]
    report = ird.compare(files[1], f"openvino:{files[0]}", x)
    assert report.passed == passed, report
    assert report.tensors[0].max_abs == 1


def test_layers_that_no_result_needs_are_no_readers() -> None:
    import openvino as ov
    from openvino import opset13 as op

    x = op.parameter([1, 4], np.float32, name="x")
    y = op.relu(x, name="y")
    left_behind = op.relu(op.abs(y), name="unused")
    z = op.relu(y, name="z")
    model = ov.Model([z], [x])
    assert len(y.output(0).get_target_inputs()) == 2
    first, second = ((peer._key(node), 0) for node in (y, z))
    assert peer._last_readers(model, [[first], [second]]) == {first: 1, second: 2}
    del left_behind
