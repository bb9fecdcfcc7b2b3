"""Shrinking models that fail, in Python and from the command line."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ir.spec import Spec
from irdeconv.ops.activation import ReLU
from irdeconv.ops.basic import Convert, Opaque
from irdeconv.ops.convolution import Convolution
from irdeconv.verify import reduce_search
from irdeconv.verify.reduce import shrink, variant_of
from irdeconv.verify.reduce_checks import Outcome, Ran
from irdeconv.verify.reduce_pieces import Knife, Variant
from irdeconv.verify.reduce_search import Exhausted, Search, first_failing, minimized
from irdeconv.verify.runtimes import OpenVinoPartner
from support.commands import Answer, answer
from support.layers import begun, constant, result, sequential
from support.networks import LAYERS, image, network
from support.rows import each_row, tables

TABLES = tables(__file__)

# Shrinking: the searches, the cuts, the checks.

UNITS = [name for name in LAYERS if name != "y"]


# The searches, on predicates that are known ---------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64])
def test_the_first_failing_prefix(length: int) -> None:
    for first in range(1, length + 1):
        asked: list[int] = []

        def fails(n: int, first: int = first, asked: list[int] = asked) -> bool:
            asked.append(n)
            return n >= first

        assert first_failing(length, fails) == first
        assert len(asked) <= length.bit_length()


@pytest.mark.parametrize("culprits", [{0}, {9}, {3, 4}, {0, 19}, {1, 7, 13}, set(range(0, 20, 3))])
def test_ddmin_leaves_exactly_the_culprits(culprits: set[int]) -> None:
    seen = []

    def fails(items: list[int]) -> bool:
        seen.append(tuple(items))
        return culprits <= set(items)

    assert set(minimized(range(20), fails)) == culprits
    assert all(list(s) == sorted(s) for s in seen)


def test_what_was_seen_is_not_checked_again_and_limits_hold() -> None:
    checked = []

    def check(variant: Variant) -> Outcome:
        checked.append(len(variant.layers))
        return Outcome(True, "")

    base = variant_of([network()], {"x": image()})
    search = Search(check, base, Outcome(True, ""), max_checks=2)
    knife = Knife(base)
    for _ in range(3):
        assert search.fails(knife.piece(knife.units[:4]))
    assert checked == [4]
    assert search.fails(knife.piece(knife.units[:3]))
    with pytest.raises(Exhausted, match="2 checks"):
        search.fails(knife.piece(knife.units[:2]))
    ticks = iter(range(100))
    search = Search(check, base, Outcome(True, ""), seconds=2, clock=lambda: next(ticks))
    assert search.fails(knife.piece(knife.units[:1]))
    with pytest.raises(Exhausted, match="2 s"):
        search.fails(knife.piece(knife.units[:2]))


# The cuts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", range(len(UNITS)))
def test_pieces_compute_what_the_whole_computes(begin: int) -> None:
    """Any run of layers, fed with what flows in, gives the tensors of the whole network."""
    whole = ird.infer(network())
    tensors: dict[str, tuple[np.ndarray, ...]] = {}
    ird.run(whole, [image()], form=None, trace=lambda n, arrays: tensors.update({n.name: arrays}))
    knife = Knife(variant_of([whole], [image()]))
    assert [whole.node(u[0]).name for u in knife.units] == UNITS
    for end in range(begin + 1, len(UNITS) + 1):
        piece = knife.piece(knife.units[begin:end])
        assert [n.name for n in piece.layers] == UNITS[begin:end]
        arrays = ird.run(piece.graph, piece.feeds, form=None, fuse=False).values()
        for end_node, array in zip(piece.graph.results, arrays, strict=True):
            source = piece.graph.inputs_of(end_node.id)[0]
            name = piece.graph.node(source.node).name
            close = {"rtol": 1e-4, "atol": 1e-5}  # kernels add in different orders
            np.testing.assert_allclose(array, tensors[name][source.port], **close)


def test_shapes_flow_in_as_constants() -> None:
    """A Reshape behind ShapeOf and Gather keeps its numbers and its exact shape."""
    g = ird.parse("""graph 1 "net" {
      %0 "x" = opset1.Parameter() {shape = [2, 3, ?, 4], element_type = f32}
      %1 "relu" = opset1.ReLU(%0)
      %2 "shape" = opset3.ShapeOf(%1) {output_type = i64}
      %3 "axes" = opset1.Const() {element_type = i64, shape = [2], data = [0, 1]}
      %4 "axis" = opset1.Const() {element_type = i64, shape = [], data = [0]}
      %5 "two" = opset8.Gather(%2, %3, %4) {batch_dims = 0}
      %6 "rest" = opset1.Const() {element_type = i64, shape = [1], data = [-1]}
      %7 "target" = opset1.Concat(%5, %6) {axis = 0}
      %8 "flat" = opset1.Reshape(%1, %7) {special_zero = false}
      %9 "y" = opset1.Result(%8)
    }""")
    x = np.arange(2 * 3 * 5 * 4, dtype=np.float32).reshape(2, 3, 5, 4)
    knife = Knife(variant_of([g], [x]))
    piece = knife.piece(knife.named(["flat"]))
    assert [n.name for n in piece.graph.parameters] == ["relu"]
    assert [n.name for n in piece.graph.nodes("Const")] == ["target"]
    (y,) = ird.run(piece.graph, piece.feeds, form=None).values()
    np.testing.assert_array_equal(y, x.reshape(2, 3, 20))


def test_weights_that_are_computed_of_constants_stay_constants() -> None:
    g, x = begun((1, 2, 4, 4))
    half = constant(g, np.ones((3, 2, 1, 1), np.float16), "half")
    w = Value(g.add(Convert(f32), [half], name="w").id)
    result(g, Value(g.add(Convolution(), [x, w], name="conv").id))
    small = ird.reduce(g, lambda graph, inputs: any(graph.nodes("Convolution")))
    assert [n.name for n in small.layers] == ["conv"]
    assert [n.name for n in small.graph.nodes("Const")] == ["w"]


def test_both_sides_are_cut_at_the_same_places() -> None:
    """A lowered layer is several nodes on one side only; they belong to the layer."""
    whole = ird.infer(network())
    knife = Knife(variant_of([whole, ird.lower(whole).graph], [image()]))
    piece = knife.piece(knife.named(["up"]))
    a, b = piece.graphs
    assert [n.type for n in Variant((a,), {}).layers] == ["ConvolutionBackpropData"]
    assert [n.type for n in Variant((b,), {}).layers] == ["ZeroInsertion", "Pad", "Convolution"]
    ya, yb = (list(ird.run(g, piece.feeds, form=None).values()) for g in (a, b))
    np.testing.assert_allclose(ya[0], yb[0], rtol=1e-5, atol=1e-5)


def test_sizes_shrink_together() -> None:
    base = variant_of([network()], {"x": image()})
    piece = Knife(base).piece(Knife(base).named(["conv2"]))
    assert piece is not None
    small = reduce_search.resized(
        piece, reduce_search.SizeChange(16, 2)
    )  # the channels of data and filter
    assert small is not None
    assert {n.name: n.spec().shape for n in small.graph.nodes() if n.type != "Result"} == {
        "relu1": (1, 2, 12, 12),
        "w2": (24, 2, 3, 3),
        "conv2": (1, 24, 12, 12),
    }
    np.testing.assert_array_equal(small.feeds["relu1"], piece.feeds["relu1"][:, :2])
    assert reduce_search.resized(piece, reduce_search.SizeChange(16, 2, inputs_only=True)) is None


# Checks ---------------------------------------------------------------------------------------


def test_a_function_as_a_check() -> None:
    """Two layers that fail only together, far apart: nothing else is left."""

    def check(graph: Graph, inputs: dict[str, np.ndarray]) -> bool:
        assert list(inputs) == graph.inputs
        ird.run(graph, inputs, form=None)  # every variant is valid
        return {("relu1", "ReLU"), ("split", "Split")} <= {(n.name, n.type) for n in graph.nodes()}

    small = ird.reduce(network(), check)
    assert [n.name for n in small.layers] == ["relu1", "split"]
    assert str(small) == '9 layers -> 2: ReLU "relu1", Split "split"'
    assert max(a.size for a in small.inputs.values()) <= 4
    assert small.stopped is None
    again = ird.reduce(network(), check)
    assert ird.dump(small.graph) == ird.dump(again.graph)


def test_errors_of_a_function() -> None:
    def always(graph: Graph, inputs: dict[str, np.ndarray]) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ird.reduce(network(), always)

    def picky(graph: Graph, inputs: dict[str, np.ndarray]) -> bool:
        if len(list(graph.nodes("Convolution"))) == 1:
            raise ValueError("one convolution is not supported")
        return True

    small = ird.reduce(network(), picky)
    assert [n.type for n in small.layers].count("Convolution") in (0, 2)
    assert small.undecided > 0


def test_an_interruption_keeps_the_best() -> None:
    calls = 0

    def check(variant: Variant) -> Outcome:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return Outcome(any(n.name == "conv2" for n in variant.layers), "conv2 is there")

    base = variant_of([network()], {"x": image()})
    done = shrink(Search(check, base, Outcome(True, "conv2 is there")))
    assert done.stopped == "interrupted"
    assert 1 < len(done.layers) < 9
    assert "conv2" in [n.name for n in done.layers]


def test_a_kind_of_mistake_is_kept() -> None:
    """A flipped kernel does not shrink to a kernel of size 1 with two different numbers."""
    small = ird.reduce(network(), compare=network({"w2": lambda v: v[:, :, ::-1]}))
    assert [n.name for n in small.layers] == ["conv2"]
    assert "the kernel is flipped along spatial axes (0)" in small.found
    assert not ird.compare(small.graph, small.other, small.inputs).passed


def test_operations_that_nobody_knows_are_kept_whole() -> None:
    declared = (Spec.of(np.zeros((1, 4, 8, 8), np.float32), keep=False),)
    magic = "magic", Opaque("Magic", "vendor", declared=declared)
    g = sequential((1, 4, 8, 8), ("relu", ReLU()), magic, ("behind", ReLU()))
    small = ird.reduce(g, lambda graph, inputs: any(graph.nodes("Magic")))
    assert [n.name for n in small.layers] == ["magic"]
    assert small.graph.parameters[0].spec().shape == (1, 4, 8, 8)  # as it is declared
    behind = ird.reduce(g, lambda graph, inputs: bool(graph.find("behind")))
    assert [n.name for n in behind.layers] == ["behind"]


def test_open_sizes_stay_open_where_the_fault_needs_them() -> None:
    model = "ir_samples/openvino/dynamic.xml"
    x = np.ones((1, 2, 4, 5), np.float32)
    any_size = ird.reduce(model, lambda graph, inputs: True, [x])
    assert any_size.graph.parameters[0].spec().static
    is_open = ird.reduce(model, lambda graph, inputs: not graph.parameters[0].spec().static, [x])
    assert not is_open.graph.parameters[0].spec().static
    assert is_open.inputs["x"].size == 1


def test_an_error_of_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ReLU.evaluate

    def broken(self: ReLU, data: np.ndarray) -> np.ndarray:
        if data.shape[1] > 16:
            raise ValueError("too many channels")
        return real(self, data)

    monkeypatch.setattr(ReLU, "evaluate", broken)
    monkeypatch.setattr(ReLU, "bind", lambda *_: None)
    small = ird.reduce(network(), verb="run")
    assert [n.name for n in small.layers] == ["relu2"]
    assert "too many channels" in small.found


@pytest.mark.oracles
def test_other_numbers_in_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of our own, which OpenVINO does not make."""
    real = ReLU.evaluate
    monkeypatch.setattr(ReLU, "evaluate", lambda self, x: real(self, x) + (x.shape[1] == 24))
    assert [n.name for n in ird.reduce(network(), compare="openvino").layers] == ["relu2"]
    monkeypatch.undo()
    with pytest.raises(ird.NothingToReduceError, match="both sides agree"):
        ird.reduce(network(), compare="openvino")


@pytest.mark.oracles
def test_what_only_a_fused_model_gets_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layer by layer OpenVINO agrees; as a whole it makes a mistake with two layers in a row."""
    real = OpenVinoPartner.outputs

    def fused(self: OpenVinoPartner) -> list[np.ndarray | None]:
        types = [n.type for n in ird.read(self.file).topological()]
        wrong = "ReLU" in types[types.index("Convolution") :] if "Convolution" in types else False
        return [None if y is None else y + (wrong and self.whole) for y in real(self)]

    monkeypatch.setattr(OpenVinoPartner, "outputs", fused)
    small = ird.reduce(network(), compare="openvino")
    assert small.in_one_piece
    assert [n.type for n in small.layers] == ["Convolution", "ReLU"]
    assert repr(small).startswith("<Reduced: 9 layers -> 2: Convolution ")


@each_row(
    ("wanted", "ran", "expected"),
    [
        ("3", Ran(3, ""), True),
        ("3", Ran(4, "3"), False),
        ("any", Ran(1, ""), True),
        ("any", Ran(125, ""), False),
        ("any", Ran(0, ""), False),
        ("any", Ran(None, ""), False),
        ("timeout", Ran(None, ""), True),
        ("timeout", Ran(1, "timeout"), False),
        ("SIGSEGV", Ran(-11, ""), True),
        ("SIGSEGV", Ran(139, ""), True),
        ("SIGSEGV", Ran(1, "SIGSEGV"), False),
        ("assertion failed", Ran(0, "x: assertion failed at 3"), True),
        ("assertion failed", Ran(1, "out of memory"), False),
    ],
)
def test_which_failure_counts(wanted: str, ran: Ran, expected: bool) -> None:
    assert ran.shows(wanted) is expected
    if ran.code not in (0, None) and wanted != "any":
        assert ran.shows(ran.failure)


def test_the_array_of_a_constant_is_not_changed() -> None:
    """Variants share data with the caller's graph."""
    g = network()
    before = {n.name: np.array(n.op.data.array()) for n in g.nodes("Const")}
    ird.reduce(g, lambda graph, inputs: any(graph.nodes("ConvolutionBackpropData")))
    for n in g.nodes("Const"):
        np.testing.assert_array_equal(n.op.data.array(), before[n.name])
    assert isinstance(next(g.nodes("Const")).op.data, ArrayData)
    assert replace(g.info) == Graph().info


# `irdeconv reduce`: commands as checks, what is written, what is refused.

SCRIPT = """
import sys, time
from pathlib import Path
text = Path(sys.argv[1]).read_text()
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ird.write(network(), tmp_path / "net.xml")
    return tmp_path / "net.xml"


def command(body: str) -> str:
    """Write a script and return the command that runs it."""
    Path("check.py").write_text(SCRIPT + body)
    return f"'{sys.executable}' -S check.py {{}}"


def reduce(*arguments: str, code: int = 0) -> Answer:
    output = () if "-o" in arguments else ("-o", "small.xml")
    return answer("reduce", "net.xml", *output, *arguments, code=code)


def test_a_command(model: Path) -> None:
    """The error names a layer, so it is found at once; another error is not mistaken for it."""
    check = command("""
if 'name="conv2"' not in text: sys.exit("nothing to compile")
if 'name="w2"' in text: sys.exit("error in conv2: no weights")
""")
    out = reduce("--check", check, "--fails-with", "no weights").out
    small = ird.infer(ird.read("small.xml"))
    assert [n.name for n in small.nodes() if n.type == "Convolution"] == ["conv2"]
    assert len(Variant((small,), {}).layers) == 1
    assert 'layers     9 -> 1: Convolution "conv2"' in out
    assert "error in conv2: no weights" in out
    assert "see it     " in out
    see = out.partition("see it     ")[2].partition("\nthe whole model")[0]
    assert shlex.split(see.replace("\\\n", " ")) == shlex.split(check.replace("{}", "small.xml"))
    assert max(map(len, out.splitlines())) <= 80
    with np.load("small.npz") as inputs:
        (y,) = ird.run(small, {n: inputs[n] for n in inputs.files}).values()
    assert y.size == 1
    text = out.partition("a .ird file):\n")[2]
    assert ird.dump(ird.parse(text)) == ird.dump(ird.parse(ird.dump(ird.parse(text))))


def test_json_and_inputs(model: Path) -> None:
    body = "\nimport zipfile\nassert zipfile.ZipFile(sys.argv[2]).namelist()\n"
    check = command(body + "sys.exit(7 if 'type=\"Split\"' in text else 0)") + " {inputs}"
    done = reduce("--check", check, "--format", "json", "--fails-with", "7").json
    assert done["schema"] == "irdeconv/reduce/1"
    assert done["layers"] == [{"name": "split", "type": "Split"}]
    assert done["layers_before"] == 9
    assert done["output"] == ["small.xml", "small.bin", "small.npz"]
    assert done["command"].endswith("check.py small.xml small.npz")


@pytest.mark.parametrize(
    ("body", "options", "message"),
    TABLES["nothing_to_reduce"],
    ids=["passes", "skips", "another", "not found", "hangs", "flaky", "rewriting"],
)
def test_nothing_to_reduce(model: Path, body: str, options: tuple[str, ...], message: str) -> None:
    err = reduce("--check", command(body), *options, code=1).err
    assert "E509" in err
    assert message in err
    assert not Path("small.xml").exists()


@pytest.mark.thorough
def test_a_command_that_hangs_is_a_fault_too(model: Path) -> None:
    check = command("time.sleep(30 if 'type=\"Sigmoid\"' in text else 0)")
    limits = ("--timeout", "0.5", "--max-checks", "4")
    reduce("--check", check, "--fails-with", "timeout", *limits)
    assert "Sigmoid" in Path("small.xml").read_text()


@pytest.mark.parametrize(("arguments", "code", "message"), TABLES["refusals"])
def test_refusals(model: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    assert message in reduce(*arguments, code=code).err


def test_a_second_model(model: Path) -> None:
    """The second model calls its input otherwise, and was written from another graph."""
    other = network({"b3": lambda v: 0 * v}, names={"relu1": "other_relu"})
    other.parameters[0].name = "image"
    ird.write(other, "other.xml")
    out = reduce("--compare", "other.xml").out
    assert "see it     irdeconv compare small.xml small_other.xml -i small.npz" in out
    assert 'Add "add3"' in out
    assert main(["compare", "small.xml", "small_other.xml", "-i", "small.npz"]) == 1
    Path("small_other.xml").unlink()
    assert "both sides agree" in reduce("--compare", "net.xml", code=1).err
