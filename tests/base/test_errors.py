"""Errors: what they say, codes, limits, budgets."""

import copy
import errno
import io
import json
import pickle
import re
import shlex
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base import errors, limits
from irdeconv.base.code_pages import FOLDER, GROUPS, CodePage, code_page, path_of
from irdeconv.base.codes import CODES
from irdeconv.base.errors import (
    Diagnostic,
    FileAccessError,
    IrdeconvError,
    Note,
    nearest,
    no_access,
)
from irdeconv.base.source import Location, SourceFile
from irdeconv.base.words import distance
from irdeconv.cli.main import main
from irdeconv.cli.usage import option_names
from irdeconv.cli.verbs import VERBS, verb_parser
from irdeconv.ir.constant import ArrayData
from irdeconv.ir.dtypes import f32
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.basic import Const, Result
from irdeconv.rewrite.builder import GraphBuilder
from support.commands import Capture, Patch, answer, command, printed, write_files
from support.memory import peak_of
from support.rows import each_row

SAMPLE = "ir_samples/openvino/group_deconv.xml"

# What is raised is also the built-in error that says the same, and survives pickling.

KINDS = {
    "InputError": ValueError,
    "InferenceError": ValueError,
    "UsageError": ValueError,
    "ArgumentTypeError": TypeError,
    "LoweringError": NotImplementedError,
    "UnsupportedError": NotImplementedError,
    "ExecutionError": RuntimeError,
    "LimitError": MemoryError,
    "FileAccessError": OSError,
    "MissingFileError": FileNotFoundError,
    "MissingWeightsError": FileNotFoundError,
    "ForbiddenFileError": PermissionError,
    "FolderError": IsADirectoryError,
    "NoFolderError": NotADirectoryError,
}


def made(kind: type[IrdeconvError]) -> IrdeconvError:
    return kind([Diagnostic("E500", "error", "text"), Diagnostic("W303", "warning", "more")])


@each_row("name", list(KINDS))
def test_errors_are_built_in_errors_too(name: str) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, IrdeconvError)
    assert issubclass(kind, KINDS[name])
    assert "text" in str(made(kind))
    assert "more" not in str(made(kind))


@each_row("name", list(KINDS))
def test_errors_are_copied_and_pickled(name: str) -> None:
    error = made(getattr(errors, name))
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(back) is type(error)
        assert (str(back), back.diagnostics) == (str(error), error.diagnostics)


def test_a_file_error_keeps_number_and_name() -> None:
    error = no_access(Diagnostic("E100", "error", "no"), errno.EACCES, Path("a.xml"))
    for back in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(back, PermissionError)
        assert (back.errno, back.filename) == (errno.EACCES, "a.xml")
        assert back.strerror == "Permission denied"
    assert type(no_access(error.diagnostics, None, "a")) is FileAccessError


@pytest.mark.parametrize("name", ["no.xml", "no.onnx", "no.json", "no.ird", "no"])
def test_a_missing_model_is_a_missing_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for function in (ird.read, ird.convert):
        with pytest.raises(FileNotFoundError) as caught:
            function(path)
        assert isinstance(caught.value, FileAccessError)
        assert caught.value.filename == str(path)
    assert main(["infer", str(path)]) == 6


def test_other_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        ird.read(tmp_path)
    graph = ird.read(SAMPLE)
    with pytest.raises(FileNotFoundError):
        ird.write(graph, tmp_path / "no" / "net.xml")
    with pytest.raises(IsADirectoryError):
        ird.write(graph, tmp_path)
    with pytest.raises(FileNotFoundError):
        ird.lower(graph, target=tmp_path / "no.toml")
    with pytest.raises(FileNotFoundError):
        ird.compare(graph, tmp_path / "no.npz", {"x": 0})


def test_wrong_content_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="E101"):
        ird.read(b"nothing")


def test_missing_weights_are_a_missing_file_and_a_model_that_cannot_be_used(tmp_path: Path) -> None:
    model = tmp_path / "net.xml"
    model.write_bytes(Path(SAMPLE).read_bytes())
    for kind in (FileNotFoundError, ird.InputError, ird.FileAccessError, ValueError):
        with pytest.raises(kind) as caught:
            ird.run(model, {})
        assert caught.value.filename == str(tmp_path / "net.bin")
    assert main(["infer", str(model)]) == 3


@pytest.mark.parametrize("text", [b"<?xml version='1.0'?><net/>", b'graph 1 "n" {}'])
def test_what_needs_no_conversion_is_not_converted(text: bytes) -> None:
    with pytest.raises(ird.UsageError, match="needs no conversion"):
        ird.convert(text)


def test_shapes_of_several_inputs_are_one_dictionary_in_python() -> None:
    text = errors.in_python("give them: --shape 'a/b:[1,64],state[2,64,3],n[]'")
    assert text == 'give them: infer(model, {"a/b": [1,64], "state": [2,64,3], "n": []})'


def test_a_path_is_relative_to_the_working_directory_if_that_is_shorter(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = ("/net.xml", f"{tmp_path}/link/../net.xml", "sub/../net.xml", "./net.xml")
    for path, shown in (
        (tmp_path / "sub" / "net.xml", "sub/net.xml"),
        *zip(kept, kept, strict=True),
    ):
        place = Location(SourceFile(str(path), b""), fixed=(3, 7))
        found = Diagnostic("E302", "error", "no", place, notes=(Note("see", place),))
        assert str(found).startswith(f"{shown}:3:7: error")
        assert f"see ({shown}:3:7)" in found.render()
        assert found.to_dict()["file"] == str(path)


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    forged = 'layer "a\nmodel.xml:1:1: error[E101]: nothing is wrong" is wrong'
    found = Diagnostic("E210", "error", forged, notes=(Note("a\nb"),), hint="c\nd")
    for text in (str(found), found.render()):
        assert "\nmodel.xml" not in text
    assert len(found.render().splitlines()) == 3


# Diagnostic codes: every one is explained, and its example reports exactly this code.

# The text of `compare` has words for it; its code stands in JSON.
WITHOUT_CODE_IN_TEXT = {"E504"}
# What no file alone can provoke.
WITHOUT_EXAMPLE = {"E125", "E401", "E402", "E506", "E520", "E610", "W502"}
REPORTED = re.compile(r"\b(?:error|warning|note)\[([EW]\d{3})\]")


def raised(program: str) -> str:
    with pytest.raises(IrdeconvError) as e:
        exec(compile(program, "example", "exec"), {})
    return f"{e.value}\n"


@pytest.mark.usefixtures("pipe")
@pytest.mark.parametrize("code", sorted(set(CODES) - WITHOUT_EXAMPLE))
def test_an_example_reports_its_code_and_no_other(
    code: str, tmp_path: Path, monkeypatch: Patch, update: bool
) -> None:
    page = code_page(code)
    write_files(page.files, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert page.steps
    found = [raised(s.what) if s.python else printed(s.what) for s in page.steps]
    if update:
        rewrite(page, found)
    else:
        assert [s.prints for s in page.steps] == found
    reported = set(REPORTED.findall("".join(found)))
    assert reported == (set() if code in WITHOUT_CODE_IN_TEXT else {code})


def rewrite(page: CodePage, found: list[str]) -> None:
    """Put what the steps print now into the file of a code."""
    path = path_of(page.code)
    text = path.read_text("utf-8")
    for step, new in zip(page.steps, found, strict=True):
        head = "--- raises\n" if step.python else f"--- $ {step.what}\n"
        text = text.replace(head + step.prints, head + new)
    path.write_text(text, "utf-8")


def test_where_the_text_has_no_code_the_document_has(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    page = code_page("E504")
    write_files(page.files, tmp_path)
    monkeypatch.chdir(tmp_path)
    (step,) = page.steps
    main([*shlex.split(step.what)[1:], "--format", "json"])
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    assert {d["code"] for d in found} == {"E504"}


def test_every_code_is_explained_and_nothing_else_is() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} == set(CODES)
    assert {c[:2] for c in CODES} == set(GROUPS)
    assert {c for c in CODES if not code_page(c).steps} == WITHOUT_EXAMPLE
    for page in map(code_page, CODES):
        assert page.why.endswith(".")
        assert page.fix
        assert page.steps or page.when


def test_the_list_has_every_code() -> None:
    assert re.findall(r"^  ([EW]\d{3})  ", answer("codes").out, re.M) == [
        c for group in GROUPS for c in CODES if c.startswith(group)
    ]
    listed = answer("codes", "--format", "json").json["codes"]
    assert {c["code"]: c["severity"] for c in listed} == {
        c: "error" if c[0] == "E" else "warning" for c in CODES
    }


def test_a_code_is_explained_in_any_case() -> None:
    out = answer("codes", "e302").out
    page = code_page("E302")
    assert out.startswith(
        f"E302: {CODES['E302'].title}\n\n{page.why}\n\nHow to fix it: {page.fix}\n"
    )
    assert textwrap.indent(page.files["model.xml"], "    ") in out
    (step,) = page.steps
    assert out.endswith(f"\n\n$ {step.what}\n{step.prints}")
    assert "error[E302]" in out


def test_several_codes_and_beginnings() -> None:
    out = answer("codes", "W4", "E310").out
    wanted = [c for c in CODES if c == "E310" or c.startswith("W4")]
    assert [c for c in CODES if f"{c}: {CODES[c].title}" in out] == wanted
    out = answer("codes", "w4").out
    assert "W402" in out
    assert "model.xml" not in out


def test_the_document_of_a_code() -> None:
    (found,) = answer("codes", "E600", "--format", "json").json["codes"]
    assert found["severity"] == "error"
    assert list(found["files"]) == ["model.xml"]
    assert "limits=ird.Limits" in found["steps"][0]["python"]


def test_limits_in_the_texts_are_those_of_the_code() -> None:
    limits = ird.Limits()
    assert f"{limits.layers:,}" in code_page("E601").why
    assert f"{limits.edges:,}" in code_page("E601").why
    assert f"({limits.ports:,})" in code_page("E601").why
    assert f"({limits.attributes:,})" in code_page("E601").why
    assert f"{limits.depth} levels" in code_page("E603").why
    assert f"{limits.xml_bytes // 2**30} GiB" in code_page("E600").why


@pytest.mark.parametrize(("terminal", "arguments"), [(True, []), (True, ["-q"]), (False, [])])
def test_validate_points_to_the_codes_at_a_terminal(
    terminal: bool, arguments: list[str], tmp_path: Path, monkeypatch: Patch
) -> None:
    write_files(code_page("E213").files, tmp_path)
    monkeypatch.chdir(tmp_path)
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["validate", "model.xml", *arguments]) == 1
    assert ("irdeconv codes E213 explains" in err.getvalue()) == (terminal and not arguments)
    assert "irdeconv codes" not in out.getvalue()


def test_options_in_the_texts_exist() -> None:
    known = {option for verb in VERBS for option in option_names(verb_parser(verb))}
    for page in map(code_page, CODES):
        named = re.findall(r"(?<![\w-])--[a-z][a-z-]*", f"{page.why} {page.fix}")
        assert set(named) <= known, page.code
        for line in re.findall(r"`irdeconv ([a-z-]+)[ `]", f"{page.why} {page.fix}"):
            assert line in (*VERBS, "help"), page.code


# The limits: shown, set, and held by whoever reads, infers, lowers or runs.


def test_limits_are_shown_and_set(capsys: Capture) -> None:
    assert command("doctor", "--limits", "--limit", "layers=2") == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[1:3] for words in shown if words[0] == "layers"] == [["2", "layers"]]
    assert command("doctor", "--limits", "--format", "json", "--limit", "tensor_bytes=1.5G") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["limits"]}
    assert rows["tensor_bytes"]["value"] == 3 * 2**29
    assert rows["layers"]["value"] == rows["layers"]["default"] == ird.Limits().layers
    for verb in ("validate", "infer", "run", "lower"):
        assert command(verb, SAMPLE, "--limit", "layers=3") == 5
        assert "--limit layers=N" in "".join(capsys.readouterr())
        answer(verb, SAMPLE, "--limit", "layers=4", "-q")


def test_every_value_that_is_shown_can_be_set() -> None:
    for row in limits.table():
        assert limits.setting(f"{row['name']}={limits.shown(row)}") == (row["name"], row["value"])
    assert limits.setting("memory=None") == ("memory", limits.LARGEST_INT)
    assert limits.setting(" xml-bytes = 1.5 KiB") == ("xml_bytes", 1536)
    assert limits.setting("memory=8191P".replace("P", "T")) == ("memory", 8191 * 2**40)


def test_the_environment_sets_limits_and_options_go_first(
    capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3, memory=2 GiB,ports=1,000, edges=7")
    assert limits.of_environment() == [
        ("layers", 3),
        ("memory", 2**31),
        ("ports", 1000),
        ("edges", 7),
    ]
    answer("validate", SAMPLE, code=5)
    answer("validate", SAMPLE, "--limit", "layers=9")
    assert command("doctor", "--limits", "--limit", "edges=8", "--format", "json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["limits"]}
    assert [rows[n]["source"] for n in ("layers", "edges", "rank")] == [
        "IRDECONV_LIMITS",
        "--limit",
        "default",
    ]
    assert "(E601); set by IRDECONV_LIMITS" in answer("doctor", "--limits").out


@pytest.mark.parametrize("verb", ["validate", "batch"])
def test_a_bad_environment_is_one_diagnostic(
    verb: str, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3;edges=4")
    words = ["validate"] if verb == "batch" else []
    assert command(verb, *words, SAMPLE, "--format=json") == 2
    [found] = json.loads(capsys.readouterr().out)["diagnostics"]
    assert found["code"] == "E700"
    assert found["message"].startswith("IRDECONV_LIMITS: ")
    assert command("codes", "E601") == 0


def test_a_batch_hands_the_limits_of_its_environment_on(monkeypatch: Patch) -> None:
    monkeypatch.setenv("IRDECONV_LIMITS", "layers=3")
    assert command("batch", "validate", SAMPLE, "--jobs=0", "-q") == 5
    assert command("batch", "validate", SAMPLE, "--jobs=0", "-q", "--limit=layers=9") == 0


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
def test_all_nodes_of_a_lowering_together_are_limited(form: str) -> None:
    graph, target = ird.read(SAMPLE), "generic"
    with ird.Limits(lowered_total=99).applied():
        ird.lower(graph, form, target)
    with (
        ird.Limits(lowered_total=1).applied(),
        pytest.raises(ird.LimitError, match="lowered_total=N") as caught,
    ):
        ird.lower(graph, form, target)
    [found] = caught.value.diagnostics
    assert (found.code, found.severity) == ("E601", "error")
    assert found.location is not None


def test_too_many_nodes_are_refused_before_one_is_made(monkeypatch: Patch) -> None:
    x = '%0 "x" = opset1.Parameter() {shape = [1, 1, 2, 2], element_type = f32}'
    w = '%1 "w" = opset1.Parameter() {shape = [1, 1, 9, 9], element_type = f32}'
    up = '%2 "up" = opset1.ConvolutionBackpropData(%0, %1) {strides = [9, 9], dilations = [1, 1]}'
    graph = ird.parse(f'graph 1 "g" {{ {x} {w} {up} %3 "y" = opset1.Result(%2) }}')
    monkeypatch.setattr(GraphBuilder, "add", None)
    with (
        ird.Limits(lowered_total=2 * 81 - 1).applied(),
        pytest.raises(ird.LimitError, match="lowered_total=N"),
    ):
        ird.lower(graph, "phases")


@each_row(
    "text",
    "layers layer=1 layers=x layers=-1 edges=9e9 edges=² layers=1.5 layers=1,00 edges=99999999999G "
    "layers= layers=nones rank=33 rank=none".split(),
)
def test_limits_that_are_none(text: str) -> None:
    assert "E700" in answer("infer", "ir_samples/openvino/dynamic.xml", "--limit", text, code=2).err


def test_the_rank_cannot_be_raised() -> None:
    """Sorting and iterators of NumPy take 32 axes; a tensor of more is no crash, only too much."""
    with pytest.raises(ValueError, match="from 0 to 32"):
        ird.Limits(rank=33)
    axes = (1,) * 40 + (3,)
    graph = Graph()
    data = ArrayData.of(np.arange(3, dtype=np.float32).reshape(axes))
    x = graph.add(Const(f32, axes, data), name="x")
    graph.add(Result(), [Value(x.id)], name="y")
    assert "[0.0, 1.0, 2.0]" in ird.dump(graph)
    with pytest.raises(ird.InferenceError, match="has rank 41; the limit is 32") as caught:
        ird.infer(graph)
    assert "more than 32" in str(caught.value)
    with ird.Limits(rank=4).applied():
        assert limits.raise_hint("rank").endswith("--limit rank=N")


# Memory and work are counted before anything is allocated or multiplied.

LIMIT = 1 << 20
SIZES = """graph 1 "g" {{
  %0 "n" = opset1.Parameter() {{shape = [{shape}], element_type = i64}}
  %1 "a" = opset1.Const() {{element_type = {type}, shape = [{ones}], data = [{a}]}}
  %2 "b" = opset1.Const() {{element_type = {type}, shape = [{ones}], data = [{b}]}}
  %3 "made" = {made}
  %4 "r" = opset1.Result(%3)
}}
"""
MADE = {
    "Broadcast": ('opset3.Broadcast(%1, %0) {mode = "numpy"}', "1", "1"),
    "Tile": ("opset1.Tile(%1, %0)", "1", "1"),
    "Range": ("opset4.Range(%1, %0, %2) {output_type = f32}", "", ""),
    "RandomUniform": ("opset8.RandomUniform(%0, %1, %2) {output_type = f32}", "1", ""),
}


X = np.zeros((2, 6, 4, 5), np.float32)


def test_work_is_limited() -> None:
    with ird.Limits(macs=10).applied(), pytest.raises(ird.LimitError, match="multiply-accumulates"):
        ird.run(SAMPLE, X)
    assert ird.run(SAMPLE, X)


ROWS = """graph 1 "g" {{
  %0 "x" = opset1.Parameter() {{shape = [{rows}, 4], element_type = f32}}
  %1 "each" = opset1.TensorIterator(%0)
    body {{inputs = [[0, 0, [0]]], outputs = [[3, 0, [0]]], edges = []}} {{
      %0 "row" = opset1.Parameter() {{shape = [1, 4], element_type = f32}}
      %1 "w" = opset1.Const() {{element_type = f32, shape = [4, 1], data = [1.0, 2.0, 3.0, 4.0]}}
      %2 "m" = opset1.MatMul(%0, %1)
      %3 "out" = opset1.Result(%2)
    }}
  %2 "y" = opset1.Result(%1)
}}
"""


@pytest.mark.parametrize("rows", ["5", "?"])
def test_bodies_count_as_often_as_they_run(rows: str) -> None:
    graph = ird.parse(ROWS.format(rows=rows))
    feeds = {"x": np.ones((5, 4), np.float32)}
    with ird.Limits(macs=20).applied():
        ird.run(graph, feeds)
    with ird.Limits(macs=19).applied(), pytest.raises(ird.LimitError, match="takes 20 multi"):
        ird.run(graph, feeds)


def test_memory_is_limited_by_the_limits_in_force() -> None:
    with ird.Limits(memory=100).applied(), pytest.raises(ird.LimitError, match="the limit is 100"):
        ird.run(SAMPLE, X)
    with ird.Limits(memory=100).applied():
        assert ird.run(SAMPLE, X, max_memory=2**30)


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("kind", MADE)
def test_sizes_that_only_values_tell_are_limited(kind: str, fuse: bool) -> None:
    made, shape, ones = MADE[kind]
    text = SIZES.format(shape=shape, ones=ones, type="f32", made=made, a="0.0", b="1.0")
    plan = ird.compile(ird.parse(text), fuse=fuse, max_memory=LIMIT)
    feed = np.array([1000] if shape else 1000, np.int64)
    assert plan.run({"n": feed})["r"].shape == (1000,)

    def fail() -> None:
        with pytest.raises(ird.LimitError, match="the limit is 1,048,576"):
            plan.run({"n": feed * 1_000_000})

    assert peak_of(fail)[1] < LIMIT


def test_constants_that_are_folded_are_counted_first() -> None:
    def fail() -> None:
        with pytest.raises(ird.LimitError, match="a constant takes"):
            ird.compile("tests/hostile/files/bc1e9.xml", max_memory=100 << 20)

    assert peak_of(fail)[1] < LIMIT


def test_only_near_words_are_proposed() -> None:
    cases = {
        "upl": ["up1"], "up7": ["up1", "up2"], "UP_1": ["up1"], "u1p": ["up1"],
        "GPU": [], "tensorflow": [], "gem": ["gemm"], "stacekd": ["stacked"], "edge": ["edgetpu"],
        "Deconv*": ["ConvolutionBackpropData"], "scope": [],
    }  # fmt: skip
    known = ["up1", "up2", "edgetpu", "tensorrt", "gemm", "stacked", "ConvolutionBackpropData"]
    known += [f"scope/{n}" for n in "abcd"]
    assert {word: nearest(word, known) for word in cases} == cases
    assert nearest("conv9", [f"conv{n}" for n in range(5)]) == []
    assert [distance("kitten", w) for w in ("kitten", "sitting", "iktten", "")] == [0, 3, 1, 6]
