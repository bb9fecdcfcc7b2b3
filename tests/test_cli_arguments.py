"""Arguments that cannot be right are refused at once: one message, no work, no file touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irdeconv.cli.main import main
from support.small_net import write_small_net


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a model, its lowering, a folder, a file of something else."""
    monkeypatch.chdir(tmp_path)
    write_small_net(Path())
    assert main(["lower", "net.xml", "-o", "low.xml", "-q"]) == 0
    Path("folder").mkdir()
    Path("other.json").write_text('{"notes": []}')
    Path("target.toml").write_text('description = "mine"\n')
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        # Numbers.
        ("bench net.xml --rounds 0", 2, '"0" is not a number from 1 to 100000'),
        ("bench net.xml --rounds nan", 2, '"nan" is not a number from 1'),
        ("bench net.xml --rounds 1e9", 2, '"1e9" is not a number from 1'),
        ("bench net.xml --rounds 99999999999999999999", 2, "is not a number from 1 to 100000"),
        ("bench net.xml --time nan", 2, '"nan" is not a finite number from 0 to 86400'),
        ("bench net.xml --time inf", 2, '"inf" is not a finite number from 0 to 86400'),
        ("bench net.xml --time=-1", 2, '"-1" is not a finite number from 0 to 86400'),
        ("bench net.xml --time soon", 2, '"soon" is not a finite number'),
        ("bench net.xml --top 0", 2, '"0" is not a number from 1 on'),
        ("bench net.xml --threads 0", 2, '"0" is not a number from 1 to 1024'),
        ("run net.xml --seed 1_0", 2, '"1_0" is not a number from 0 on'),
        ("check-certificate net.xml low.xml --seed=-1", 2, '"-1" is not a number from 0 on'),
        ("compare net.xml --tolerance 1e400", 2, '"1e400" is not a finite number from 0 on'),
        # Names.
        ("bench net.xml --against tvm", 2, 'there is no peer "tvm"'),
        ("bench net.xml --form none-of-them", 2, 'there is no lowering form "none-of-them"'),
        ("compare net.xml --form none", 2, 'there is no lowering form "none"'),
        ("run net.xml --form phase", 2, 'did you mean "phases"?'),
        ("lower net.xml --target gpu", 2, 'there is no target "gpu"'),
        ("lower net.xml --target=", 2, "--target is empty"),
        ("run net.xml --shape x[9..3]", 2, "9 is above 3"),
        ("run net.xml ons", 2, 'did you mean "ones"?'),
        ("run net.xml x=@folder", 2, '"folder" is a folder, not a file with the values of input'),
        ("run net.xml x=@nofile.png", 6, "nofile.png: No such file or directory"),
        ("run net.xml nofile.npy", 6, "cannot read nofile.npy: No such file"),
        # Places.
        ("lower net.xml -o .", 6, ". cannot be written: Is a directory"),
        ("raise net.xml -o /", 6, "/ cannot be written: Is a directory"),
        ("infer net.xml --output=", 2, "--output is empty"),
        ("convert net.xml -o folder", 6, "folder cannot be written: Is a directory"),
        ("lower net.xml -o none/x.xml", 6, "none/x.xml cannot be written: No such file"),
        ("lower net.xml -o net.xml/x.xml", 6, "net.xml/x.xml cannot be written: Not a directory"),
        ("lower net.xml -o x.bin", 2, "-o x.bin: an IR is written as .xml"),
        ("lower net.xml --certify folder", 6, "folder cannot be written: Is a directory"),
        ("inspect net.xml -o folder", 6, "folder cannot be written: Is a directory"),
        ("run net.xml -o none/y.npz", 6, "none/y.npz cannot be written: No such file"),
        ("run net.xml --dump all -o y.npy", 2, "1 output beside the dumped layers"),
        ("run net.xml --dump all --dump-dir net.xml", 6, "net.xml cannot be written into"),
        ("demo -o net.xml", 6, "net.xml cannot be written into: it is not a folder"),
        ("demo -o net.xml/new", 6, "net.xml/new cannot be written: Not a directory"),
        ("bench net.xml --tune net.xml/t.json", 6, "t.json cannot be written: Not a directory"),
        ("bench net.xml --tune net.xml/a/t.json", 6, "cannot be written: Not a directory"),
        ("run net.xml --weights none.bin", 6, "cannot read the weights file none.bin"),
        ("validate net.xml --weights none.bin", 6, "cannot read the weights file none.bin"),
        ("compare net.xml low.xml --other-weights no.bin", 6, "the weights file no.bin: No such"),
        ("check-certificate net.xml low.xml --lowered-weights n", 6, "the weights file n: No such"),
        # Files that would be lost.
        ("run net.xml --tune other.json", 2, "would overwrite a file that holds no measurements"),
        ("lower net.xml --target target.toml -o target.toml", 2, "is written as .xml"),
        ("lower net.xml --target target.toml --certify target.toml", 2, "overwrite the input"),
        # Options that say nothing together.
        ("compare net.xml low.xml --form phases", 2, "--form: with OTHER nothing is lowered"),
        ("compare net.xml low.xml --target generic", 2, "--target: with OTHER nothing is lowered"),
        ("compare net.xml a.npz --form zero-insertion --target generic", 2, "--form and --target:"),
        ("compare net.xml y.npy", 2, "y.npy is neither a model nor an .npz"),
        ("compare net.xml --other-weights low.bin", 2, "--other-weights goes with the .xml of a"),
        ("compare net.xml a.npz --other-weights low.bin", 2, "--other-weights goes with the .xml"),
        ("inspect net.xml --form phases", 2, "--form: without --lower nothing is lowered"),
    ],
)  # fmt: skip
def test_refused_at_once(
    folder: Path, command: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(folder)
    capsys.readouterr()
    assert main(command.split(" ")) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    for late in ("measuring", ": rand, seed", "wrote", "This is a bug"):
        assert late not in captured.err
    assert contents(folder) == before


def test_measurements_may_lie_in_a_new_folder(folder: Path) -> None:
    """What earlier runs have measured is read again; its folder is made."""
    for _ in range(2):
        assert main(["run", "net.xml", "--tune", "new/kernels.json", "-q"]) == 0
    Path("new").mkdir(exist_ok=True)
    kept = {"schema": "irdeconv/kernels/1", "kernels": {"key": "name"}}
    Path("new/kernels.json").write_text(json.dumps(kept))
    assert main(["run", "net.xml", "--tune", "new/kernels.json", "-q"]) == 0


def test_compare_and_inspect_take_a_form_where_they_lower(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "net.xml", "--form", "phases", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["b"] == "lowered (phases)"
    assert main(["compare", "net.xml", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["b"] == "lowered (zero-insertion)"
    assert main(["inspect", "net.xml", "--lower", "--form", "phases"]) == 0
