"""Records of verbs: how rows are read, and that each constraint refuses what it names."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from irdeconv.base.errors import UsageError
from irdeconv.cli.checks import check_outputs, check_together
from irdeconv.cli.options import PARSERS, SHARED, Verb, VerbOption, rows
from irdeconv.cli.verbs import VERBS, verb_record

KINDS = {"", "model", "weights", "arrays", "text", "page", "folder", "file"}
OPTIONS = [(verb, option) for verb in VERBS for option in verb_record(verb).options]


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


@pytest.mark.parametrize(("verb", "option"), OPTIONS, ids=lambda x: getattr(x, "name", x))
def test_constraints_refuse_and_name_arguments(verb: str, option: VerbOption) -> None:
    this = verb_record(verb)
    assert {option.reads.split(" ")[0], option.writes.split(" ")[0]} <= KINDS
    value = "x" if option.value else True
    actions = {"action": option.of.split()[0], "task": option.of.split()[0]} if option.of else {}
    alone = given(this, **actions) if actions else given(this)
    setattr(alone, option.key, value)
    if option.needs:
        with pytest.raises(UsageError, match=f"{option.name} needs"):
            check_together(this, alone)
    for name in option.needs.split()[:1]:
        setattr(alone, this.named(name).key, "y")
    check_together(this, alone)
    for name in option.excludes.split():
        other, _, values = name.partition("=")
        both = Namespace(**vars(alone))
        setattr(both, this.named(other).key, values.split("|")[0] or "y")
        with pytest.raises(UsageError, match="exclude each other"):
            check_together(this, both)
    if option.of:
        with pytest.raises(UsageError, match="has no"):
            check_together(this, Namespace(**vars(alone) | {"action": "?", "task": "?"}))


def test_an_output_is_no_input_and_no_other_output(tmp_path: Path) -> None:
    verb = Verb(
        """about
    FILE  a model @reads model
    --more FILE  a file @reads file
    -o --output FILE  the model @writes model .xml
    --report FILE  a page @writes page
    --force  overwrite
    """,
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
