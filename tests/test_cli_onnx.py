"""`lower` and `check-certificate` on ONNX files: options, files, exit codes."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import irdeconv as ird
from irdeconv.cli.main import main
from support.onnx_deconvolutions import Layer

UP = Layer(data=(1, 4, 5, 6), filter=(4, 3, 4, 4), attributes={"strides": [2, 2], "pads": [1] * 4})


def test_lower_and_check_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, proof = (str(tmp_path / n) for n in ("net.onnx", "low.onnx", "proof.json"))
    onnx.save(UP.model(), path)
    assert main(["lower", path, "--form", "stacked", "-o", out, "--certify", proof]) == 0
    said = capsys.readouterr()
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
    assert main(["check-certificate", path, out]) == 1
    assert 'FAIL Neg "last" is not the same' in capsys.readouterr().out
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


def test_what_cannot_become_an_ir_can_be_lowered_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = UP.model()
    made.graph.node.append(onnx.helper.make_node("TfIdfVectorizer", ["y"], ["d"]))
    made.graph.output[0].name = "d"
    path = str(tmp_path / "net.onnx")
    onnx.save(made, path)
    assert main(["lower", path, "-o", str(tmp_path / "low.xml")]) == 4
    said = capsys.readouterr().err
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
def test_refused(
    arguments: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(UP.model(), "net.onnx")
    ird.write(ird.convert("net.onnx"), "net.xml")
    before = sorted(p.name for p in tmp_path.iterdir())
    assert main(arguments.split()) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert sorted(p.name for p in tmp_path.iterdir()) == before
