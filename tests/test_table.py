"""Tables and sentences that fit a width; names that somebody pastes stay whole."""

from __future__ import annotations

import random

import pytest

from irdeconv.base.tables import columns, printable, table, wrap

HEAD = ("id", "name", "type", "inputs", "MACs")


def words(random_: random.Random, most: int) -> str:
    return " ".join("x" * random_.randint(1, 9) for _ in range(random_.randint(0, most)))


def name(random_: random.Random) -> str:
    return "/".join("abcdefghi"[: random_.randint(1, 9)] for _ in range(random_.randint(1, 9)))


def test_a_table_that_fits_has_a_line_per_row() -> None:
    assert table(("id", "name"), [("7", "conv"), ("12", "a")], ("id",)) == (
        "id  name\n--  ----\n 7  conv\n12  a"
    )


def test_a_name_too_long_for_its_column_gets_a_line_of_its_own() -> None:
    rows = [(str(i), f"layer{i}", "word " * 9) for i in range(9)]
    long = "model/" + "block/" * 5 + "conv"
    lines = table(("id", "name", "why"), [*rows, ("9", long, "word " * 9)], ("id",), width=46)
    assert lines.splitlines()[-5:] == [
        " 8  layer8  word word word word word word word",
        "            word word",
        f" 9  {long}",
        "            word word word word word word word",
        "            word word",
    ]


def test_a_row_that_is_too_long_is_folded_as_its_header_is() -> None:
    rows = [("1", "conv", "Convolution", "[1,3,224,224] [64,3,7,7]", "118,013,952")]
    assert table(HEAD, rows, ("id", "MACs"), width=44) == (
        "id  name  type\n"
        "    inputs                           MACs\n"
        "-----------------------------------------\n"
        " 1  conv  Convolution\n"
        "    [1,3,224,224] [64,3,7,7]  118,013,952"
    )


def test_a_word_that_fits_no_line_is_broken_where_it_reads_well() -> None:
    shape = "f32[" + ",".join(["1024"] * 12) + "]"
    lines = table(("id", "shape"), [("1", shape)], width=30).splitlines()
    assert all(columns(line) <= 30 for line in lines)
    assert "".join(line.removeprefix("1").strip() for line in lines[2:]) == shape
    assert all(line.endswith((",", "]")) for line in lines[2:])


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_random_tables_fit_and_keep_names(width: int) -> None:
    random_ = random.Random(width)
    for _ in range(50):
        names = [name(random_) for _ in range(9)]
        rows = [
            (str(i), n, words(random_, 2), words(random_, 8), f"{10 ** random_.randint(0, 12):,}")
            for i, n in enumerate(names)
        ]
        lines = table(HEAD, rows, ("id", "MACs"), width=width).splitlines()
        wide = [line for line in lines if columns(line) > width]
        assert all(line in names for line in wide), wide
        for row in rows:
            assert any(row[1] in line.split() for line in lines)
            assert sum(line.count(row[4]) for line in lines) >= 1


def test_foreign_text_cannot_break_a_table() -> None:
    text = table(("name",), [("two\nlines",), ("\x1b[31mred\r",), ("tab\tbed",)])
    assert text.splitlines()[2:] == ["two\\nlines", "\\x1b[31mred\\r", "tab bed"]
    assert printable("\x9b\u202e") == "\\x9b\\u202e"


def test_wide_characters_take_two_columns() -> None:
    lines = table(("name", "type"), [("層", "a"), ("layer", "b")]).splitlines()
    assert lines[2:] == ["層     a", "layer  b"]
    assert [columns(line) for line in lines[2:]] == [8, 8]


def test_sentences_are_wrapped_at_spaces_with_an_indent() -> None:
    text = "net.xml:3:7: error[E302]: the input has rank 3, which the operation does not take"
    assert wrap(text, 50) == (
        "net.xml:3:7: error[E302]: the input has rank 3,\n    which the operation does not take"
    )
    assert wrap("   = note: one two three four five", 24) == (
        "   = note: one two three\n           four five"
    )
    assert wrap("  verb     does this and that", 24) == "  verb     does this and\n           that"


def test_a_name_that_fits_gets_the_room_that_it_needs() -> None:
    assert wrap("sample      a/path/to/a/file.xml", 24) == "sample\n    a/path/to/a/file.xml"


def test_a_quoted_name_stays_whole_where_it_can() -> None:
    assert wrap('no layer "conv 1 of 2" here', 20) == 'no layer\n    "conv 1 of 2"\n    here'
    assert wrap('"' + "a " * 20 + '"', 20).splitlines()[0] == '"a a a a a a a a a a'
    assert wrap('a 5"x b c', 6) == 'a 5"x\n   b c'


def test_a_word_is_never_broken() -> None:
    path = "a/" * 40
    assert wrap(f"cannot read {path} at all", 30) == f"cannot read\n    {path}\n    at all"


def test_lines_that_fit_stay_as_they_are() -> None:
    text = "a  b\n\n" + "x" * 80 + "\n  c"
    assert wrap(text) == text
