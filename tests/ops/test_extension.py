"""Operations of a user's module are read, run, judged, imported and written."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv import extension
from irdeconv.cli.main import main
from irdeconv.ir.op import REGISTRY, TYPES
from support.commands import answer

MODULE = re.search(
    r"<!-- example: extension -->\n```python\n(.*?)```",
    (Path(__file__).resolve().parents[2] / "docs/extensions.md").read_text(encoding="utf-8"),
    re.DOTALL,
)[1]  # type: ignore[index]
PORT = "<dim>1</dim><dim>2</dim><dim>4</dim>"
MODEL = f"""<?xml version="1.0"?>
<net name="thresholds" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,2,4" element_type="f32"/>
<output><port id="0" precision="FP32" names="x">{PORT}</port></output></layer>
<layer id="1" name="soft" type="SoftThreshold" version="mine"><data threshold="1.5"/>
<input><port id="0" precision="FP32">{PORT}</port></input>
<output><port id="1" precision="FP32" names="s">{PORT}</port></output></layer>
<layer id="2" name="twice" type="Add" version="opset1">
<input><port id="0">{PORT}</port><port id="1">{PORT}</port></input>
<output><port id="2" precision="FP32" names="y">{PORT}</port></output></layer>
<layer id="3" name="out" type="Result" version="opset1"><input><port id="0"/></input></layer>
</layers><edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
<edge from-layer="0" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges></net>"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test the two files, and forget what it registers."""
    monkeypatch.chdir(tmp_path)
    Path("soft_threshold.py").write_text(MODULE)
    Path("net.xml").write_text(MODEL)
    Path("net.bin").write_bytes(b"")
    known, kinds = dict(REGISTRY), {k: list(v) for k, v in TYPES.items()}
    monkeypatch.setattr(extension, "_LOADED", {})
    yield
    REGISTRY.clear()
    REGISTRY.update(known)
    TYPES.clear()
    TYPES.update(kinds)


X = np.float32([[[-3, -1, 0, 1], [2, 3, 1.5, -1.75]]])
SOFT = np.float32([[[-1.5, 0, 0, 0], [0.5, 1.5, 0, -0.25]]])


def test_the_module_makes_the_operation_executable() -> None:
    with pytest.raises(ird.UnsupportedError, match="SoftThreshold"):
        ird.run("net.xml", {"x": X})
    extension.load("soft_threshold.py")
    np.testing.assert_array_equal(ird.run("net.xml", {"x": X})["y"], SOFT + X)
    assert ird.validate("net.xml") == []
    (node,) = ird.infer("net.xml", {"x": [5, 2, 4]}).nodes("SoftThreshold")
    assert str(node.spec()) == "f32[5,2,4]"
    assert node.op.threshold == 1.5  # type: ignore[attr-defined]


def test_the_verbs_take_it() -> None:
    np.save("x.npy", X)
    given = ["--extension", "soft_threshold.py"]
    assert main(["run", "net.xml", "x=@x.npy", "-o", "y.npz", *given]) == 0
    np.testing.assert_array_equal(np.load("y.npz")["y"], SOFT + X)
    assert main(["infer", "net.xml", "-o", "new.xml", *given]) == 0
    assert 'type="SoftThreshold" version="mine"' in Path("new.xml").read_text()
    assert main(["compare", "net.xml", "new.xml", *given]) == 0
    np.savez("all.npz", s=SOFT + np.float32(0.01), y=SOFT + X)
    assert "soft" in answer("compare", "net.xml", "all.npz", "-i", "x=@x.npy", *given, code=1).out


def test_a_subclass_of_sugar_is_defined_by_others() -> None:
    Path("sugar.py").write_text(
        "from irdeconv.extension import SugarOp, op\n"
        "from irdeconv.ops.elementwise import Multiply\n"
        '@op("SoftThreshold", "mine")\n'
        "class Square(SugarOp):\n"
        '    """x * x."""\n'
        "    threshold: float = 0.0\n"
        "    def expand(self, b, data):\n"
        "        return b.add(Multiply(), data, data)\n"
    )
    extension.load("sugar.py")
    np.testing.assert_array_equal(ird.run("net.xml", {"x": X})["y"], X * X + X)


def test_onnx_nodes_of_its_domain_are_imported() -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("SoftThreshold", ["x"], ["y"], domain="mine", threshold=1.5)
    ends = [onnx.helper.make_tensor_value_info(n, 1, [1, 2, 4]) for n in "xy"]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("mine", 1)]
    model = onnx.helper.make_model(graph, opset_imports=sets)
    with pytest.raises(ird.UnsupportedError, match="not covered"):
        ird.convert(model)
    extension.load("soft_threshold.py")
    np.testing.assert_array_equal(ird.run(ird.convert(model), {"x": X})["y"], SOFT)
    node.attribute[0].name = "limit"
    graph.node[0].CopyFrom(node)
    model.graph.CopyFrom(graph)
    with pytest.raises(ird.UnsupportedError, match="limit"):
        ird.convert(model)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "at line 1: ZeroDivisionError"),
        ("\ndef f(:", "at line 2: SyntaxError"),
        (
            "from irdeconv.extension import *\nfrom irdeconv.extension import Op, op\n"
            '@op("ReLU", "opset1")\nclass R(Op):\n    """Twice."""\n',
            "registered twice",
        ),
    ],
)
def test_a_module_that_fails_leaves_nothing_behind(text: str, said: str) -> None:
    Path("bad.py").write_text(MODULE + text if "ReLU" in text else text)
    with pytest.raises(ird.UsageError, match=said):
        extension.load("bad.py")
    assert ("SoftThreshold", "mine") not in REGISTRY
    with pytest.raises(FileNotFoundError):
        extension.load("none.py")
    assert main(["run", "net.xml", "--extension", "bad.py"]) == 2
    assert main(["run", "net.xml", "--extension", "none.py"]) == 6


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(ird.FileAccessError, match="a pipe, not a regular file"):
        extension.load(tmp_path / "pipe.py")
    with pytest.raises(FileNotFoundError, match="cannot read the extension"):
        extension.load(tmp_path / "none.py")
    with pytest.raises(IsADirectoryError):
        extension.load(tmp_path)


def test_it_is_loaded_once() -> None:
    assert extension.load("soft_threshold.py") is extension.load(Path("soft_threshold.py"))


# Operations that stay unknown ----------------------------------------------------------------


def test_a_custom_operation_set_validates_with_a_warning() -> None:
    (found,) = ird.validate("net.xml")
    assert (found.code, found.severity) == ("W204", "warning")
    Path("net.xml").write_text(MODEL.replace('version="mine"', 'version="opset99"'))
    assert [d.code for d in ird.validate("net.xml")] == ["W204"]


@pytest.mark.parametrize(("version", "code"), [("opset3", "E206"), ("opst1", "E206")])
def test_what_openvino_itself_would_refuse_is_an_error(version: str, code: str) -> None:
    Path("net.xml").write_text(MODEL.replace('version="mine"', f'version="{version}"'))
    assert [d.code for d in ird.validate("net.xml")] == [code]


@pytest.mark.parametrize("shape", ["2,2,4", "?,2,4", "1,2,4,1"])
def test_a_declared_shape_that_an_override_makes_untrue_is_not_believed(shape: str) -> None:
    if shape.count(",") < 3:
        said = answer("infer", "net.xml", "--shape", f"x[{shape}]")
        assert re.search(r"soft +SoftThreshold +f32\[\.\.\.\] +unknown", said.out)
        assert "warning[W207]" in said.out + said.err
        graph = ird.infer("net.xml", {"x": shape})
        assert str(graph.results[0].spec()) in ("f32[...]", f"f32[{shape}]")
    found = ird.validate("net.xml", shapes={"x": shape})
    assert ("E310" if shape.count(",") == 3 else "W207") in {d.code for d in found}


def test_the_declared_shape_is_believed_where_the_override_is_among_the_declared() -> None:
    text = MODEL.replace('shape="1,2,4"', 'shape="?,2,4"').replace("<dim>1</dim>", "<dim>-1</dim>")
    Path("net.xml").write_text(text)
    assert str(ird.infer("net.xml", {"x": [3, 2, 4]}).results[0].spec()) == "f32[3,2,4]"
    assert "W207" not in {d.code for d in ird.validate("net.xml", shapes={"x": [3, 2, 4]})}


def test_an_input_that_contradicts_its_declaration_is_enough() -> None:
    """The file lies about what flows into the operation: nothing else needs to be given."""
    wrong = MODEL.replace(
        f'<input><port id="0" precision="FP32">{PORT}</port></input>',
        '<input><port id="0" precision="FP32"><dim>7</dim></port></input>',
    )
    Path("net.xml").write_text(wrong)
    assert {d.code for d in ird.validate("net.xml")} == {"W204", "W207"}
    (node,) = ird.infer("net.xml").nodes("SoftThreshold")
    assert str(node.spec()) == "f32[...]"
