"""Mistakes that users make, and the one message that each gets: what is wrong, and what mends it.

tests/golden/mistakes/answers.txt lists each as a command, its exit code and its whole answer;
`pytest --update` rewrites codes and answers. To add one, write its command there.
"""

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import synonyms
from irdeconv.base.opening import reading_hint, unwritable
from irdeconv.cli.main import main
from irdeconv.cli.options import RECORDS
from irdeconv.cli.verbs import VERBS, verb_parser
from irdeconv.formats.kinds import kind_of
from support import irbuild as ib
from support.commands import Capture, Patch
from support.ir_text import LAYER, W, write_ir
from support.onnx_models import info, model, node

ANSWERS = Path(__file__).parent.parent / "golden" / "mistakes" / "answers.txt"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 216\n"
SUM = """graph 1 "m" {
  %0 "x" = opset1.Parameter() {shape = [1, ?], element_type = f32}
  %1 "c" = opset1.Const() {element_type = f32, shape = [1, 2], data = [1.0, 2.0]}
  %2 "sum" = opset1.Add(%0, %1) {auto_broadcast = "numpy"}
  %3 "y" = opset1.Result(%2)
}
"""
RANGE = """graph 1 "m" {
  %0 "x" = opset1.Parameter() {shape = [1, 3..9], element_type = f32}
  %1 "y" = opset1.Result(%0)
}
"""
HEAD = Path(__file__).parents[2] / "ir_samples" / "openvino" / "segmentation_head.xml"
Mistake = tuple[str, int, str]


def read_answers() -> list[Mistake]:
    found = re.findall(r"^\$ (.*)\n(\d*)\n?((?:[^$\n].*\n)*)", ANSWERS.read_text("utf-8"), re.M)
    return [(command, int(code or 0), answer) for command, code, answer in found]


MISTAKES = read_answers()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as users have it: models, weights, arrays, and what is taken for them."""
    root = tmp_path_factory.mktemp("mistakes")
    write_ir(root / "net.xml", LAYER, W)
    write_ir(root / "open.xml", LAYER, W, data_shape=[1, 3, -1, -1])
    assert main(["lower", str(root / "net.xml"), "-o", str(root / "low.xml"), "-q"]) == 0
    net = (root / "net.xml").read_text("utf-8")
    for name in ("folder", "deep", "results"):
        (root / name).mkdir()
    for name in ("deep/net", "copy"):
        shutil.copy(root / "net.xml", root / f"{name}.xml")
        shutil.copy(root / "net.bin", root / f"{name}.bin")
    for name, weights in {"lfs": POINTER.encode(), "short": bytes(20), "void": b""}.items():
        (root / f"{name}.xml").write_text(net)
        (root / f"{name}.bin").write_bytes(weights)
    _write_models(root, net)
    _write_arrays(root)
    return root


def _write_models(root: Path, net: str) -> None:
    ends = (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)
    layers = [ib.parameter(0, "a"), ib.parameter(1, "b"), ib.add(2, "sum"), ib.result(3, "y")]
    odd = [ib.parameter(0, "first image"), ib.relu(1, "r"), ib.result(2, "y")]
    contents: dict[str, str | bytes] = {
        "two.xml": ib.net(layers, *ends),
        "odd.xml": ib.net(odd, (0, 0, 1, 0), (1, 1, 2, 0)),
        "lonely.xml": net,
        "old.xml": net.replace('version="11"', 'version="1"'),
        "empty.xml": "",
        "half.xml": net[:400],
        "utf16.xml": net.replace("</net>", "").encode("utf-16"),
        "utf32.xml": net.encode("utf-32"),
        "packed.xml": gzip.compress(net.encode()),
        "page.xml": "<!DOCTYPE html>\n<html><body>404</body></html>",
        "pointer.xml": POINTER,
        "model.pt": b"\x80\x02}q\x00.",
        "model.tflite": b"\x1c\0\0\0TFL3" + bytes(20),
        "model.blob": b"\x7fELF" + bytes(30),
        "settings.json": '{"a": 1}',
        "manifest.json": '{"fileFormatVersion": "1.0.0", "itemInfoEntries": {}}',
        "config.json": '{"architectures": ["Net"], "model_type": "net"}',
        "deep/mine.toml": 'description = "mine"\n',
        "sum.ird": SUM,
        "net.ird": 'graph 1 "m" {\n}\n',
        "range.ird": RANGE,
        "notes.txt": "hello\n",
        "cut.onnx": b"\x08\x09\x12\x04made" + bytes(9),
        "bad.toml": "a = [\n",
        "my net.xml": net,
        "up.onnx": _deconvolution(),
    }
    for name, content in contents.items():
        data = content if isinstance(content, bytes) else content.encode()
        (root / name).write_bytes(data)
    (root / "link.xml").symlink_to("gone.xml")


def _deconvolution() -> bytes:
    weights = {"w": np.ones((3, 2, 2, 2), np.float32)}
    deconv = node("ConvTranspose", "x w", "y", strides=[2, 2])
    return bytes(model([deconv], [info("x", [1, 3, 8, 8])], ["y"], weights).SerializeToString())


def _write_arrays(root: Path) -> None:
    ones = np.ones((1, 3, 4, 4), np.float32)
    np.savez(root / "in.npz", x=ones)
    np.savez(root / "other.npz", q=ones, r=ones)
    arrays = {"good": ones, "flat": ones.reshape(-1), "chw": ones[0], "words": np.array(["a"])}
    arrays |= {"nhwc": ones.transpose(0, 2, 3, 1), "f64": np.full((1, 3, 4, 4), 1e300)}
    for name, array in arrays.items():
        np.save(root / f"{name}.npy", array)
    for name in ("bad.npy", "bad.npz", "bad.safetensors"):
        (root / name).write_text("plain text")


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: Patch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    before = contents(folder)
    yield
    assert contents(folder) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


def answer(command: str, capsys: Capture) -> tuple[int, str]:
    """Return the exit code and everything that is printed, without what differs between runs."""
    capsys.readouterr()
    code = main(shlex.split(command))
    captured = capsys.readouterr()
    text = captured.out + captured.err
    shown = text.replace(str(Path.cwd()), "FOLDER").replace(str(Path.home()), "HOME")
    return code, re.sub(r"^input .*seed 0\n", "", shown, flags=re.M)


def test_answers(update: bool, capsys: Capture) -> None:
    found = [(command, *answer(command, capsys)) for command, _, _ in MISTAKES]
    if update:
        text = "\n".join(f"$ {command}\n{code}\n{said}" for command, code, said in found)
        ANSWERS.write_text(text, "utf-8")
    for now, then in zip(found, read_answers(), strict=True):
        assert now == then


def test_each_is_one_message_with_its_mend() -> None:
    assert len(MISTAKES) >= 60
    assert len({command for command, _, _ in MISTAKES}) == len(MISTAKES)
    for command, code, said in MISTAKES:
        assert code in (1, 2, 3, 4, 6), command
        assert said.count("error[") + said.count("FAIL") == 1, command
        assert re.search(r"\n   = |; |: (give|name) |must be", said), command
        assert "Traceback" not in said, command
        assert "is a bug" not in said, command


@pytest.mark.parametrize(
    ("command", "note"),
    [("lower net.xml", "no model is written; -o FILE writes it"),
     ("lower up.onnx", "no model is written; -o FILE writes it"),
     ("lower low.xml --certify", "no deconvolution was rewritten, so nothing is proved"),
     ("compare low.xml", "low.xml has no deconvolutions: it is compared with itself"),
     ("batch lower net.xml --jobs 0", "no models are kept; -o FOLDER keeps them"),
    ("batch compare net.xml --jobs 0", "each model was compared with its own lowering"),
     ("infer range.ird --shape x[1,16]", "the model declares 3..9, --shape sets 16"),
     (f"lower {HEAD} --only up1", "1 deconvolution of 1 lowered as zero-insertion; --only leaves 1 "
      "other;")],
)  # fmt: skip
def test_a_success_names_what_it_did_not_do(command: str, note: str, capsys: Capture) -> None:
    code, said = answer(command, capsys)
    assert code == 0
    assert note in said
    assert note not in answer(f"{command} -q", capsys)[1] or "--only" in note


def test_every_proposed_command_is_accepted() -> None:
    form = r"(?<!example)(?:= |; |: |\? )irdeconv ([a-z-]+ (?:[^;A-Z\n]|'.*')*)$"
    lines = [line for _, _, said in MISTAKES for line in re.findall(form, said, re.M)]
    prose = re.compile(r" (model|lists|takes|explains|reads|runs|prints|writes)\b")
    proposed = [x for x in lines if x.split()[0] in VERBS and not prose.search(x)]
    assert len(proposed) > 50
    for line in proposed:
        verb, *args = shlex.split(line.partition(" > ")[0])
        assert verb_parser(verb).accepts(args), line


@pytest.mark.parametrize("form", [["--format", "json"], ["--format=json"]])
@pytest.mark.parametrize(
    "command",
    ["lowr net.xml", "lower", "lower net.xml --frm x", "bench net.xml --rounds 0", "--verson",
     "inspect nett.xml", "lower net.xml -o out", "run net.xml y=ones", "infer lonely.xml"],
)  # fmt: skip
def test_json_where_json_is_asked_for(command: str, form: list[str], capsys: Capture) -> None:
    code = main([*command.split(), *form])
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    verb = command.split()[0]
    known = verb in ("lower", "bench", "inspect", "run", "infer")
    assert content["schema"] == f"irdeconv/{verb if known else 'error'}/1"
    assert content["exit_code"] == code
    (problem,) = content["diagnostics"]
    assert problem["message"].split()[0] in captured.err
    assert problem["hint"]


def test_sizes_that_a_layer_refuses() -> None:
    hint = "the model refuses x[1,3]; it needs other sizes"
    ones = np.ones((1, 3), np.float32)
    for call in (lambda: ird.infer("sum.ird", {"x": [1, 3]}), lambda: ird.run("sum.ird", ones)):
        with pytest.raises(ird.IrdeconvError, match=re.escape(hint)):
            call()
    assert [d.hint for d in ird.validate("sum.ird", shapes={"x": [1, 3]})] == [hint]
    wrong = ird.parse(SUM.replace("[1, ?]", "[1, 5]"))
    (problem,) = ird.validate(wrong, shapes={"x": [1, 3]})
    assert "wrong layer" in (problem.hint or "")


def test_names_of_other_tools_lead_to_names_of_ours() -> None:
    ours = {name for verb in VERBS for o in RECORDS[verb].options for name in o.names}
    answers = {a for line in synonyms.OPTIONS.values() for a in line.split(" | ")}
    options = {a.split()[0] for a in answers if a.startswith("--")}
    assert options - ours - {"--quiet"} == set()
    assert {verb.split()[0] for verb in synonyms.VERBS.values()} - {*VERBS} == {
        "--help",
        "--version",
    }
    for text in synonyms.FILE.read_text("utf-8").split("\n\n"):
        names = [n for line in text.splitlines() for n in line.rpartition(": ")[2].split()]
        assert len(names) == len({*names}) > 50


@pytest.mark.parametrize("suffix", ["caffemodel", "param", "pdmodel", "mlmodel", "rknn", "engine"])
def test_files_of_other_frameworks(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"net.{suffix}"
    file.write_bytes(b"\x08\x04\x12\x10" + bytes(9))
    for call in (ird.read, ird.convert):
        with pytest.raises(ird.InputError, match=r"model|engine") as e:
            call(file)
        assert "not a" not in (e.value.diagnostics[0].hint or "not a")


@pytest.mark.parametrize("call", [lambda file: ird.check_onnx(file, file), ird.lower_onnx])
def test_functions_for_onnx_name_those_that_read_an_ir(call: Callable[[str], Any]) -> None:
    with pytest.raises(ird.InputError, match="not an ONNX model but an OpenVINO IR") as e:
        call("net.xml")
    named = re.findall(r"irdeconv\.(\w+)", e.value.diagnostics[0].hint or "")
    assert named == ["lower", "check_certificate"]
    assert ird.check_certificate("net.xml", ird.lower("net.xml").graph).passed


def test_weights_name_the_model_beside_them() -> None:
    assert kind_of(Path("net.bin").read_bytes(), "net.bin").mend == "name the model: net.xml"
    assert "an ncnn model" not in kind_of(b"\0", "net.bin").name


def test_files_that_may_not_be_opened() -> None:
    """The superuser may open everything: what is said to others is asked for by its number."""
    assert reading_hint("net.xml", 13) == "you may not read it: chmod u+r net.xml"
    hints = {n: unwritable(Path("a/b.xml"), n, "no").diagnostics[0].hint for n in (13, 28, 30)}
    assert hints == {
        13: "you may not write in a; name another place",
        28: "there is no space left where a lies",
        30: "you may not write in a; name another place",
    }
