"""The command line: what it prints, which arguments it takes, exit codes."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.errors import Spelling, UsageError
from irdeconv.cli.checks import check_outputs, check_together
from irdeconv.cli.diagnostics import physical
from irdeconv.cli.main import main
from irdeconv.cli.options import PARSERS, RECORDS, SHARED, Verb, VerbOption, rows
from irdeconv.cli.verbs import VERBS
from support.commands import Capture, Patch, answer, command
from support.ir_text import LAYER, W, write_ir, write_small_net
from support.rows import each_row

# The command line in process: results, exit codes, JSON, files.


@pytest.fixture
def open_net(tmp_path: Path) -> Path:
    """The same with dynamic height and width."""
    return write_ir(tmp_path / "open.xml", LAYER, W, data_shape=[1, 3, -1, -1])


@pytest.fixture
def broken(net: Path) -> Path:
    """A deconvolution whose data has the wrong number of channels."""
    path = net.with_name("broken.xml")
    path.write_text(net.read_text().replace('shape="1,3,4,4"', 'shape="1,5,4,4"'))
    path.with_suffix(".bin").write_bytes(net.with_suffix(".bin").read_bytes())
    return path


# Dispatch ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pipe")
def test_usage_and_version() -> None:
    usage = answer("--help").out
    assert max(map(len, usage.splitlines())) <= 80
    said = " ".join(usage.split())
    assert [(v, what) for v, what in VERBS.items() if f"{v} {what}" not in said] == []
    assert answer("help").out == usage
    assert answer("--version").out == f"irdeconv {ird.__version__}\n"
    captured = answer(code=2)
    assert (captured.out, captured.err[:6]) == ("", "usage:")


@each_row("verb", list(VERBS))
def test_every_verb_has_help(verb: str) -> None:
    out = answer(verb, "--help").out
    assert out.startswith(f"usage: irdeconv {verb}")
    assert "--format {text,json" in out


# Exit codes --------------------------------------------------------------------------------------


def test_unreadable_and_missing_files(tmp_path: Path) -> None:
    bad = tmp_path / "bad.xml"
    bad.write_text("<net")
    for verb in ("infer", "lower", "run", "inspect", "compare"):
        assert "error[E101]" in answer(verb, bad, code=3).err
        assert "error[E100]" in answer(verb, tmp_path / "none.xml", code=6).err
    assert command("validate", bad) == 1
    assert command("validate", tmp_path / "none.xml") == 6
    assert command("validate", tmp_path) == 6


def test_a_model_that_does_not_fit(broken: Path) -> None:
    assert "error[E302]" in answer("infer", broken, code=3).err
    captured = answer("inspect", broken)
    assert "error[E302]" in captured.err
    assert "deconv" in captured.out


def test_a_bug_asks_for_a_report(net: Path, monkeypatch: Patch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("deep inside")

    monkeypatch.setattr("irdeconv.cli.model.graph_of", fail)
    err = answer("infer", net, code=70).err
    assert "KeyError: 'deep inside'" in err
    assert "please report it" in err
    assert "--debug" in err
    assert "Traceback" not in err
    assert "Traceback" in answer("infer", net, "--debug", code=70).err
    assert answer("infer", net, "--format", "json", code=70).json["exit_code"] == 70


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (MemoryError(), 5), (RuntimeError("can't start new thread"), 5)],
)
def test_interrupts_and_memory(
    net: Path, monkeypatch: Patch, error: BaseException, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("irdeconv.cli.model.graph_of", fail)
    assert command("infer", net) == code


# validate ----------------------------------------------------------------------------------------


def test_sarif_of_a_name_that_is_no_utf_8() -> None:
    """Systems give such bytes as surrogates."""
    assert physical("models/\udcff a.xml", None) == {
        "artifactLocation": {"uri": "models/%FF%20a.xml"}
    }


def test_validate_junit(net: Path, broken: Path) -> None:
    good, bad = ElementTree.fromstring(
        answer("validate", "--format", "junit", net, broken, code=1).out
    )
    assert (good.get("tests"), good.get("failures")) == ("1", "0")
    assert bad.get("failures") == "1"
    assert bad.find("testcase/failure").get("type") == "E302"


def test_validate_strict(net: Path) -> None:
    net.write_text(net.read_text().replace('strides="2,2"', 'strides="2,2" stride="2"'))
    assert command("validate", net) == 0
    assert command("validate", "--strict", net) == 1


# infer, lower, inspect, compare -------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    ["x[1,3,5,6]", "x:[1,3,5,6]", "[1,3,5,6]", "1,3,5,6", " x [ 1, 3, 5, 6 ]", "x[1,3,5..5,6]"],
)
def test_shapes_in_every_spelling(open_net: Path, shape: str) -> None:
    found = answer("infer", open_net, "--shape", shape, "--format", "json").json
    assert found["outputs"] == {"y": "f32[1,2,9,11]"}


def test_validate_with_shapes(open_net: Path) -> None:
    assert command("validate", open_net, "--shape", "x[1,3,4,4]") == 0
    found = answer("validate", open_net, "--shape", "[1,5,4,4]", "--format", "json", code=1).json
    (error,) = found["diagnostics"]
    assert (error["code"], error["layer"]) == ("E302", "deconv")
    assert "5 channels" in error["message"]


def test_validate_by_the_document(tmp_path: Path, capsys: Capture) -> None:
    layer = replace(LAYER, auto_pad="valid", output_shape=(7, 7))
    net = write_ir(tmp_path / "net.xml", layer, np.ones((3, 2, 3, 3), np.float32))
    for semantics in ("runtime", "document"):
        command("validate", net, "--semantics", semantics)
        assert f"the {semantics}'s" in capsys.readouterr().out


def test_infer_writes_what_o_names(open_net: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    out = tmp_path / "out.xml"
    assert command("infer", open_net) == 0
    assert set(tmp_path.iterdir()) == before
    assert command("infer", open_net, "--shape", "[1,3,4,4]", "-o", out) == 0
    assert set(tmp_path.iterdir()) == before | {out, out.with_suffix(".bin")}
    assert str(ird.read(out).results[0].declared_inputs[0]) == "f32[1,2,7,7]"


@pytest.mark.parametrize("verb", ["lower", "infer"])
def test_inputs_are_not_overwritten(net: Path, verb: str, tmp_path: Path) -> None:
    link = tmp_path / "link.xml"
    link.symlink_to(net)
    before = net.read_bytes()
    for target in (net, link, net.with_suffix(".XML").with_name("net.xml")):
        assert command(verb, net, "-o", target) == 2
    assert command(verb, net, "-o", "-") == 2
    assert net.read_bytes() == before
    assert command(verb, net, "-o", net, "--force") == 0
    assert net.read_bytes() != before
    assert command("validate", net) == 0


@pytest.mark.parametrize("verb", ["lower", "raise"])
def test_certificates_do_not_overwrite_the_ir(net: Path, verb: str, tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    for taken in (out, out.with_suffix(".bin")):
        err = answer(verb, net, "-o", out, "--certify", taken, "--force", code=2).err
        assert f"--certify {taken} would overwrite what -o" in err
        assert not out.exists()
    assert "--certify" in answer(verb, net, "--certify", net.with_suffix(".bin"), code=2).err
    missing = tmp_path / "no" / "proof.json"
    assert f"{missing} cannot be written" in answer(verb, net, "--certify", missing, code=6).err


def test_nothing_to_raise(net: Path) -> None:
    assert "no decompositions, nothing to raise" in answer("raise", net).out


def test_compare_finds_a_difference(net: Path, tmp_path: Path) -> None:
    other = write_ir(tmp_path / "other.xml", LAYER, W[:, ::-1])
    found = answer("compare", net, other, "--format", "json", code=1).json
    assert (found["schema"], found["passed"]) == ("irdeconv/compare/1", False)
    assert (found["first_difference"], found["seed"]) == ("deconv", 0)
    assert command("compare", net, other, "--tolerance", "10") == 0


def test_compare_and_demo_choose_forms_for_a_target(net: Path) -> None:
    target = ("--form", "auto", "--target", "no-depth-to-space")
    assert command("compare", net, *target) == 0
    assert command("demo", "--samples", "openvino/deconv_3x3_to_5x5", *target) == 0


def test_compare_with_the_own_lowering(open_net: Path) -> None:
    assert command("compare", open_net) == 2  # the shape is open
    assert command("compare", open_net, "--shape", "[1,3,3,5]", "--seed", "7") == 0


def test_doctor() -> None:
    assert "numpy" in answer("doctor").out
    found = answer("doctor", "--format", "json").json
    assert found["schema"] == "irdeconv/doctor/2"
    assert found["healthy"] is True
    assert found["cpus"] >= 1
    assert set(found["extras"]) >= {"openvino", "onnx", "distributed", "zarr"}
    assert found["required"]["numpy"]["version"] == np.__version__


def test_measurements_may_lie_in_a_new_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    """What earlier runs have measured is read again; its folder is made."""
    monkeypatch.chdir(tmp_path)
    write_small_net(Path())
    for _ in range(2):
        assert main(["run", "net.xml", "--tune", "new/kernels.json", "-q"]) == 0
    Path("new").mkdir(exist_ok=True)
    kept = {"schema": "irdeconv/kernels/1", "kernels": {"key": "name"}}
    Path("new/kernels.json").write_text(json.dumps(kept))
    assert main(["run", "net.xml", "--tune", "new/kernels.json", "-q"]) == 0


def test_compare_and_inspect_take_a_form_where_they_lower(net: Path) -> None:
    compare = ("compare", str(net), "--format", "json")
    assert answer(*compare, "--form", "phases").json["b"] == "lowered (phases)"
    assert answer(*compare).json["b"] == "lowered (zero-insertion)"
    assert main(["inspect", str(net), "--lower", "--form", "phases"]) == 0


# Records of verbs: how rows are read, and that each constraint refuses what it names.


KINDS = {"", "model", "weights", "arrays", "text", "page", "folder", "file"}
OPTIONS = [(verb, option) for verb in VERBS for option in RECORDS[verb].options]


def given(verb: Verb, **values: object) -> Namespace:
    """Return parsed arguments in which only some are given."""
    return Namespace(**{o.key: o.default for o in verb.options} | values)


def test_rows_have_usage_help_and_fields() -> None:
    first, second, third = rows(
        """
    [FILE ...]  models, x=@y.npy
        and more
    = @of make list
    -n --top N  a number @whole 1 9 @default 3 @dest most
    =
    --all  everything @needs --top
    """
    )
    assert (first.key, first.value, first.help) == (
        "files",
        "[FILE ...]",
        "models, x=@y.npy and more",
    )
    assert (second.names, second.key, second.default) == (["-n", "--top"], "most", 3)
    assert (second.of, third.of, third.needs) == ("make list", "", "--top")


def test_a_row_with_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValueError, match="want"):
        list(rows("    --all  everything @want --top"))


def test_fields_and_parsers_are_different_names() -> None:
    assert not PARSERS.keys() & set(VerbOption._fields)
    assert all([*rows(f"    + {name}")] for name in SHARED)


@each_row(("verb", "option"), OPTIONS)
def test_constraints_refuse_and_name_arguments(verb: str, option: VerbOption) -> None:
    this = RECORDS[verb]
    assert {option.reads.split(" ")[0], option.writes.split(" ")[0]} <= KINDS
    value = "x" if option.value else True
    actions = {"action": option.of.split()[0], "task": option.of.split()[0]} if option.of else {}
    alone = given(this, **actions) if actions else given(this)
    setattr(alone, option.key, value)
    if option.needs:
        with Spelling(), pytest.raises(UsageError, match=f"{option.name} needs"):
            check_together(this, alone)
    for name in option.needs.split()[:1]:
        setattr(alone, this.named(name).key, "y")
    check_together(this, alone)
    for name in option.excludes.split():
        other, _, values = name.partition("=")
        both = Namespace(**vars(alone))
        setattr(both, this.named(other).key, values.split("|")[0] or "y")
        with Spelling(), pytest.raises(UsageError, match="exclude each other"):
            check_together(this, both)
    if option.of:
        with Spelling(), pytest.raises(UsageError, match=r"has no|takes no"):
            check_together(this, Namespace(**vars(alone) | {"action": "?", "task": "?"}))


def test_an_output_is_no_input_and_no_other_output(tmp_path: Path) -> None:
    verb = Verb(
        """
    FILE  a model @reads model
    --more FILE  a file @reads file
    -o --output FILE  the model @writes model .xml
    --report FILE  a page @writes page
    --force  overwrite
    """
    )
    model, other = tmp_path / "a.xml", tmp_path / "more"
    for path in (model, other):
        path.touch()
    args = {"file": str(model), "more": str(other), "force": False}
    new = str(tmp_path / "b.xml")
    check_outputs(verb, given(verb, **args, output=new))
    check_outputs(verb, given(verb, **args | {"force": True}, output=str(model)))
    for outputs in (
        {"output": str(model)},
        {"report": str(other)},
        {"report": str(tmp_path / "a.bin")},
        {"output": new, "report": str(tmp_path / "b.bin")},
        {"report": "-"},
    ):
        with pytest.raises(UsageError):
            check_outputs(verb, given(verb, **args, **outputs))
