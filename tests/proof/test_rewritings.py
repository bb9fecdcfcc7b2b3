"""Models that compute the same in other ways are proved; what differs by a little is not.

The pairs are text, in pairs/equal. What is proved after all has to lose its "not proved" there, and
what is so for every size its "at these sizes". An equal pair of each kind is always tried, all
pairs by `-m slow`.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

ov = pytest.importorskip("openvino")

import irdeconv as ird  # noqa: E402
from irdeconv.proof import pairing, reader  # noqa: E402
from irdeconv.proof.model import Unproved  # noqa: E402
from pair_texts import Pair, graphs, kinds  # noqa: E402
from pair_truth import SAME, difference  # noqa: E402
from support import runtime_truth  # noqa: E402

pytestmark = pytest.mark.oracles

KINDS = kinds("equal")


def answer(paths: tuple[Path, Path]) -> int:
    """Return 0 for every size, 3 for some, 1 for no; declared types and shapes are true here."""
    try:
        verdict = pairing.check(*(reader.read(p) for p in paths))
    except Unproved:
        return 1
    answered = 1 if not verdict.passed else 0 if verdict.every else 3
    assert verdict.exit_code == (answered or 3 * bool(verdict.assumed))
    return answered


def judge(pair: Pair, variant: str, folder: Path) -> None:
    """An equal pair is proved, unless its kind is listed; a near miss is not."""
    wanted = 1 if variant or "not proved" in pair.expect else 0
    if not wanted and pair.is_open and pair.expect == "equal at these sizes":
        wanted = 3
    assert answer(pair.write(folder, variant)) == wanted, pair


@pytest.mark.parametrize("name", KINDS)
def test_equal_and_unequal_pairs(name: str, tmp_path: Path) -> None:
    """The last case, which often has open sizes, and of a third of the kinds a near miss."""
    judge(KINDS[name][-1], "", tmp_path)
    turn, which = divmod(list(KINDS).index(name), 3)
    if which == 0:
        judge(KINDS[name][0], KINDS[name][0].variants()[turn % 2], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_all_pairs(name: str, tmp_path: Path) -> None:
    for pair, variant in itertools.product(KINDS[name], ["", "changed", "moved"]):
        judge(pair, variant, tmp_path)


ODD = {
    "another version": (
        'type="Unsqueeze" version="opset1"',
        'type="Unsqueeze" version="extension"',
    ),
    "a version to come": ('type="Reshape" version="opset1"', 'type="Reshape" version="opset17"'),
}


@pytest.mark.parametrize("change", ODD)
def test_layers_of_which_more_is_said_than_is_known(change: str, tmp_path: Path) -> None:
    paths = KINDS["zeros: Unsqueeze, Pad, Reshape"][-1].write(tmp_path)
    text = paths[1].read_text("utf-8")
    old, new = ODD[change]
    assert old in text
    paths[1].write_text(text.replace(old, new, 1), "utf-8")
    assert answer(paths) == 1


def test_inputs_of_one_name_have_sizes_of_their_own(tmp_path: Path) -> None:
    (pair,) = kinds("differ")["disclosed sizes: sizes_of_another_input"]
    paths = pair.write(tmp_path)
    for path in paths:
        text = path.read_text("utf-8")
        assert 'name="q" type="Parameter"' in text
        path.write_text(text.replace('name="q" type', 'name="x" type'), "utf-8")
    assert answer(paths) == 1


@pytest.mark.parametrize("form", ["zero-insertion", "phases", "stacked"])
@pytest.mark.parametrize("name", ["wide", "flat", "flat_open"])
def test_own_forms_saved_by_openvino(name: str, form: str, tmp_path: Path) -> None:
    graph = graphs()[name]
    pair = replace(graph, after=graph.before)
    for variant in ("", "changed"):
        original, lowered = pair.write(tmp_path, variant)
        ird.write(ird.lower(lowered, form).graph, tmp_path / "form.xml")
        model = runtime_truth.core().read_model(tmp_path / "form.xml")
        ov.save_model(model, lowered, compress_to_fp16=False)
        assert answer((original, lowered)) == bool(variant)


def truth(pairs: list[Pair], folder: Path) -> None:
    """Equal pairs compute the same numbers, near misses others, on integers, at several sizes."""
    for pair, variant in itertools.product(pairs, ["", "changed", "moved"]):
        found = difference(pair, pair.write(folder, variant))
        assert found == ("values" if variant else SAME), (variant, pair)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_openvino_agrees(name: str, tmp_path: Path) -> None:
    truth(KINDS[name], tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.thorough
@pytest.mark.parametrize("name", list(KINDS)[::6])
def test_openvino_agrees_on_some(name: str, tmp_path: Path) -> None:
    truth(KINDS[name][-1:], tmp_path)


def test_most_kinds_are_proved() -> None:
    expected = [pairs[0].expect for pairs in KINDS.values()]
    assert len(expected) >= 135
    assert sum("not proved" in text for text in expected) <= 9
    assert expected.count("equal at these sizes") <= 29
    assert all(
        pair.variants() == ["changed", "moved"] for pairs in KINDS.values() for pair in pairs
    )
