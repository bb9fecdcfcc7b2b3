"""One model with hostile names through all outputs of all verbs: no character of them gets out.

What is written for programs holds the names all the same: JSON and the text form read back to them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import irdeconv as ird
from irdeconv.base.tables import escaped_json, one_line, printable
from irdeconv.cli.main import VERBS, main

# Right-to-left override, isolate, marks, zero-width characters, a tag, a line separator, a hyphen.
UNSEEN = "\u202e\u2066\u200e\u061c\u200b\u2060\ufeff\U000e0041\u2028\xad\x7f\x9b"
NAME = f"de{UNSEEN[:-2]}conv<script>\"'&"
BAD = re.compile(f"[{UNSEEN}\x00-\x08\x0b-\x1f\ud800-\udfff]")
SAMPLE = "ir_samples/openvino/deconv_3x3_to_5x5.xml"

COMMANDS = [
    *(f"validate M{f}" for f in ("", " --format json", " --format sarif", " --format junit")),
    *(f"infer M{f}" for f in ("", " --format json", " --format ir", " -o out.xml")),
    *(f"lower M{f}" for f in ("", " --format json", " --format ir", " --report p.html")),
    "lower M -o out.xml --certify c.json --report p.html",
    *(f"run M{f}" for f in ("", " --format json", " --dump all --dump-dir d", " nothing=ones")),
    "run M --dump all -o all.npz",
    *(f"inspect M{f}" for f in ("", " --format json", " --format dot", " --format svg")),
    *(f"inspect M{f}" for f in (" --format html", " --format ir", " --constants")),
    *(f"explain M{f}" for f in ("", " --format json", " --format svg")),
    "bench M --time 0.01",
    "bench M --time 0.01 --save s.json",
    "raise M",
    "compare M M --format json",
    "compare M M --report p.html",
    "simplify M",
    "extract M --to LAYER -o out.xml",
    "rename M LAYER=new -o out.xml",
    "reduce M --check false -o out.xml",
    "convert M -o out.xml",
    "validate BROKEN",
    "validate BROKEN --format junit",
    "run BROKEN",
    "explain M nothing",
]


def model(path: Path, *, broken: bool = False) -> Path:
    """Write the sample with hostile names of layers and tensors."""
    text = Path(SAMPLE).read_text("utf-8")
    name = "".join(f"&#{ord(c)};" for c in NAME)
    text = text.replace('"deconv"', f'"{name}"').replace('"x"', f'"x{name}"')
    text = re.sub('<net name="[^"]*"', f'<net name="n{name}"', text)
    if broken:
        text = text.replace('strides="', 'strides="&#8238;')
    path.write_text(text, "utf-8")
    Path(path.with_suffix(".bin")).write_bytes(Path(SAMPLE).with_suffix(".bin").read_bytes())
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_gets_out(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"M": model(tmp_path / "m.xml"), "BROKEN": model(tmp_path / "b.xml", broken=True)}
    before = set(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    words = {**{k: v.name for k, v in places.items()}, "LAYER": NAME}
    args = [words.get(w, w.replace("LAYER", NAME)) for w in command.split(" ")]
    assert main(args) != 70
    said = capsys.readouterr()
    assert not BAD.search(said.out + said.err)
    for path in set(tmp_path.rglob("*")) - before:
        assert not BAD.search(str(path))
        if path.suffix in (".html", ".json", ".svg", ".smt2"):
            assert not BAD.search(path.read_text("utf-8"))


def test_every_verb_that_reads_models_is_here() -> None:
    asked = {c.split()[0] for c in COMMANDS}
    without = {"suite", "codes", "demo", "completion", "doctor", "check-certificate", "batch"}
    assert set(VERBS) <= asked | without


def test_notebooks_and_errors(tmp_path: Path) -> None:
    graph = ird.infer(ird.read(model(tmp_path / "m.xml")))
    shown = [graph, ird.inspect(graph), ird.lower(graph), ird.explain(graph)]
    shown += [*graph.nodes(), *ird.validate(model(tmp_path / "b.xml", broken=True))]
    for each in shown:
        assert not BAD.search(repr(each) + str(each) * (not isinstance(each, ird.Graph)))
        html = getattr(each, "_repr_html_", lambda: "")()
        assert not BAD.search(html or "")
    with pytest.raises(ird.IrdeconvError) as e:
        ird.run(graph, {f"x{UNSEEN}": None})
    assert not BAD.search(str(e.value))


def test_what_programs_read_holds_the_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(model(tmp_path / "m.xml"))
    assert main(["inspect", path, "--format", "json"]) == 0
    assert NAME in json.dumps(json.loads(capsys.readouterr().out), ensure_ascii=False).replace(
        '\\"', '"'
    )
    graph = ird.read(path)
    assert NAME in [n.name for n in ird.parse(ird.dump(graph)).nodes()]


def test_escapes() -> None:
    assert printable("a\tb\nc\x1b\u202e\U000e0041") == r"a" + "\tb\nc" + r"\x1b\u202e\U000e0041"
    assert one_line("a\tb\n") == r"a\tb\n"
    text = json.dumps(UNSEEN + "\ud800", ensure_ascii=False)
    assert not BAD.search(escaped_json(text))
    assert json.loads(escaped_json(text)) == UNSEEN + "\ud800"
