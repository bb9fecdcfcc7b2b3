"""`irdeconv reduce`: commands as checks, what is written, what is refused."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from irdeconv.verify.reduce_search import Variant
from support.networks import network

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


def reduce(*arguments: str) -> int:
    return main(["reduce", "net.xml", "-o", "small.xml", *arguments])


def test_a_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names a layer, so it is found at once; another error is not mistaken for it."""
    check = command("""
if 'name="conv2"' not in text: sys.exit("nothing to compile")
if 'name="w2"' in text: sys.exit("error in conv2: no weights")
""")
    assert reduce("--check", check, "--fails-with", "no weights") == 0
    small = ird.infer(ird.read("small.xml"))
    assert [n.name for n in small.nodes() if n.type == "Convolution"] == ["conv2"]
    assert len(Variant((small,), {}).layers) == 1
    out = capsys.readouterr()
    assert 'layers     9 -> 1: Convolution "conv2"' in out.out
    assert "error in conv2: no weights" in out.out
    assert "see it     " in out.out
    see = out.out.partition("see it     ")[2].partition("\nthe whole model")[0]
    assert shlex.split(see.replace("\\\n", " ")) == shlex.split(check.replace("{}", "small.xml"))
    assert max(map(len, out.out.splitlines())) <= 80
    with np.load("small.npz") as inputs:
        (y,) = ird.run(small, {n: inputs[n] for n in inputs.files}).values()
    assert y.size == 1
    text = out.out.partition("a .ird file):\n")[2]
    assert ird.dump(ird.parse(text)) == ird.dump(ird.parse(ird.dump(ird.parse(text))))


def test_json_and_inputs(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "\nimport zipfile\nassert zipfile.ZipFile(sys.argv[2]).namelist()\n"
    check = command(body + "sys.exit(7 if 'type=\"Split\"' in text else 0)") + " {inputs}"
    assert reduce("--check", check, "--format", "json", "--fails-with", "7") == 0
    done = json.loads(capsys.readouterr().out)
    assert done["schema"] == "irdeconv/reduce/1"
    assert done["layers"] == [{"name": "split", "type": "Split"}]
    assert done["layers_before"] == 9
    assert done["output"] == ["small.xml", "small.bin", "small.npz"]
    assert done["command"].endswith("check.py small.xml small.npz")


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        ("", (), "the fault does not show in the model: the command returned 0"),
        ("sys.exit(125)", (), "the fault does not show in the model: the command returned 125"),
        ("sys.exit('oom')", ("--fails-with", "abort"), "the command returned 1: oom"),
        ("sys.exit(127)", (), "a shell cannot run a command of the check"),
        ("time.sleep(9)", ("--timeout", "0.2"), "the command ran into the timeout"),
        (
            "Path('n').touch(exist_ok=True); Path('n').write_text('x' + Path('n').read_text());"
            "sys.exit(len(Path('n').read_text()) % 2)",
            (),
            "the check does not say the same of the same model",
        ),
        ("sys.exit('irdeconv' not in sys.argv[1])", (), "net.xml fails the check as it stands"),
    ],
    ids=["passes", "skips", "another", "not found", "hangs", "flaky", "rewriting"],
)
def test_nothing_to_reduce(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    body: str,
    options: tuple[str, ...],
    message: str,
) -> None:
    assert reduce("--check", command(body), *options) == 1
    out = capsys.readouterr()
    assert "E509" in out.err
    assert message in out.err
    assert not Path("small.xml").exists()


@pytest.mark.thorough
def test_a_command_that_hangs_is_a_fault_too(model: Path) -> None:
    check = command("time.sleep(30 if 'type=\"Sigmoid\"' in text else 0)")
    limits = ("--timeout", "1", "--max-checks", "4")
    assert reduce("--check", check, "--fails-with", "timeout", *limits) == 0
    assert "Sigmoid" in Path("small.xml").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--check", "nothing-of-this-name {}"), 2, "nothing-of-this-name is not found"),
        (("--check", "true"), 2, "it has no {}"),
        (("--check", "true '{}"), 2, "No closing quotation"),
        (("--check", ""), 2, "--check is empty"),
        (("--verb", "demo"), 2, 'verb is "demo"'),
        (("--verb", "run", "--fails-with", "3"), 2, "--fails-with goes with a --check"),
        (("--verb", "run", "--tolerance", "3"), 2, "--tolerance goes with --compare"),
        (("--compare", "net.xml", "-o", "net.xml"), 2, "would overwrite the input"),
        (("--compare", "openvno"), 2, 'did you mean "openvino"?'),
        (("--compare", "saved.npz"), 2, "saved arrays cannot be cut"),
        (("--compare", "openvino:net.xml"), 2, "OpenVINO executes the same model"),
        (("--verb", "run", "-o", "nowhere/small.xml"), 6, "No such file"),
        ((), 2, "reduce needs --check, --compare or --verb"),
    ],
)
def test_refusals(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    assert reduce(*arguments) == code
    assert message in capsys.readouterr().err


def test_a_second_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second model calls its input otherwise, and was written from another graph."""
    other = network({"b3": lambda v: 0 * v}, names={"relu1": "other_relu"})
    other.parameters[0].name = "image"
    ird.write(other, "other.xml")
    assert reduce("--compare", "other.xml") == 0
    out = capsys.readouterr().out
    assert "see it     irdeconv compare small.xml small_other.xml -i small.npz" in out
    assert 'Add "add3"' in out
    assert main(["compare", "small.xml", "small_other.xml", "-i", "small.npz"]) == 1
    Path("small_other.xml").unlink()
    assert reduce("--compare", "net.xml") == 1
    assert "both sides agree" in capsys.readouterr().err
