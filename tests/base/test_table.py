"""Tables and progress in the terminal."""

import io
import random
import re
import threading

import pytest

from irdeconv.base import progress
from irdeconv.base.tables import columns, printable, table, wrap
from irdeconv.cli.console import Console, Drawing, drawn
from irdeconv.cli.screen import duration

# Tables and sentences that fit a width; names that somebody pastes stay whole.

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


def test_rows_that_are_too_long_become_cards() -> None:
    rows = [("1", "conv", "Convolution", "[1,3,224,224] [64,3,7,7]", "118,013,952")]
    assert table(HEAD, rows, ("id", "MACs"), width=44) == (
        "conv\n"
        "    id: 1  type: Convolution\n"
        "    inputs: [1,3,224,224] [64,3,7,7]\n"
        "    MACs: 118,013,952"
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


def test_a_word_is_broken_only_if_it_is_to_be_folded() -> None:
    path = "a/" * 40
    assert wrap(f"cannot read {path} at all", 30) == f"cannot read\n    {path}\n    at all"
    folded = wrap(f"cannot read {path} at all", 30, fold=True)
    assert (
        folded == f"cannot read\n    {'a/' * 13}\n    {'a/' * 13}\n    {'a/' * 13}\n    a/ at all"
    )
    assert wrap("/some/where-else.xml", 10, fold=True) == "/some/\n    where-\n    else.\n    xml"
    assert wrap("層" * 5, 4, fold=True) == "層層\n  層\n  層\n  層"


def test_the_pieces_of_a_folded_word_have_one_indent() -> None:
    word = f"{'a' * 15}/{'b' * 6}/{'c' * 15}/"
    folded = wrap(f"  note: {word}", 20, fold=True).split("\n")
    assert [len(line) - len(line.lstrip()) for line in folded[1:]] == [4, 4, 4]
    assert "".join(line.strip() for line in folded) == f"note:{word}"


def test_a_place_in_a_file_is_never_folded() -> None:
    place = f"{'a/' * 20}net.xml:12:3:"
    assert wrap(f"{place} error", 30, fold=True) == f"{place}\n    error"
    assert len(wrap(place[:-1], 30, fold=True).split("\n")) == 1
    assert len(wrap(place[:-6], 30, fold=True).split("\n")) == 2


def test_lines_that_fit_stay_as_they_are() -> None:
    text = "a  b\n\n" + "x" * 80 + "\n  c"
    assert wrap(text) == text


# Progress: what a listener hears, and that nobody pays for it who does not listen.


class Notes:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.open: list[progress.Stage] = []

    def begin(self, stage: progress.Stage) -> None:
        self.heard.append(f"+{stage.what} {stage.done}/{stage.total}")
        self.open.append(stage)

    def end(self, stage: progress.Stage) -> None:
        self.heard.append(f"-{stage.what} {stage.done}/{stage.total} {stage.detail}".rstrip())
        assert self.open.pop() is stage


def test_stages_nest_and_count() -> None:
    notes = Notes()
    with progress.listening(notes), progress.stage("comparing", total=3) as step:
        step()
        with progress.stage("compiling") as compiled:
            compiled(5)
        step(2, "conv1")
    assert notes.heard == [
        "+comparing 0/3",
        "+compiling 0/None",
        "-compiling 5/None",
        "-comparing 3/3 conv1",
    ]


def test_a_listener_sees_the_count_while_the_work_goes_on() -> None:
    notes = Notes()
    with progress.listening(notes), progress.stage("reading", total=100) as step:
        step(40)
        assert (notes.open[0].done, notes.open[0].total) == (40, 100)


def test_an_exception_ends_its_stages() -> None:
    notes = Notes()
    with (
        pytest.raises(KeyboardInterrupt),
        progress.listening(notes),
        progress.stage("a"),
        progress.stage("b"),
    ):
        raise KeyboardInterrupt
    assert notes.heard == ["+a 0/None", "+b 0/None", "-b 0/None", "-a 0/None"]
    assert not notes.open


def test_without_a_listener_there_is_one_stage_for_all() -> None:
    assert progress.stage("a", total=1) is progress.stage("b")
    with progress.stage("a", total=1) as step:
        step()
        step(2, "x")
    notes = Notes()
    with progress.listening(notes), progress.listening(None), progress.stage("silent"):
        pass
    assert notes.heard == []


def test_other_threads_report_nothing() -> None:
    notes = Notes()

    def work() -> None:
        with progress.stage("in a thread"):
            pass

    with progress.listening(notes):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert notes.heard == []


def test_each_goes_through_the_items() -> None:
    items = ["a", "b"]
    assert progress.each("reading", items) is items  # nothing is paid for where nobody listens
    notes = Notes()
    with progress.listening(notes):
        for item in progress.each("reading", items, name=str.upper):
            assert notes.open[0].detail == item.upper()
            assert notes.open[0].done == items.index(item)
    assert notes.heard == ["+reading 0/2", "-reading 2/2 B"]


class Screenful(io.StringIO):
    """A terminal, of which the text without codes is of interest."""

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.getvalue())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screenful:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return Screenful()


def test_short_work_is_not_drawn(screen: Screenful) -> None:
    clock = Clock()
    drawing = Drawing(screen, clock)
    with progress.listening(drawing), progress.stage("reading", total=10) as step:
        step(5)
        clock.now = 0.9
        drawing.tick()
    clock.now = 2
    drawing.tick()  # nothing is open any more
    assert screen.getvalue() == ""


def test_long_work_says_what_how_far_and_how_long(screen: Screenful) -> None:
    clock = Clock()
    drawing = Drawing(screen, clock)
    with progress.listening(drawing), progress.stage("reading \x1b[2J", total=1000) as step:
        for clock.now in range(1, 5):
            step(100, "layer/" * 40)
            drawing.tick()
        assert "reading \\x1b[2J" in screen.text
        assert " 400/1,000 " in screen.text
        assert " 6 s left " in screen.text  # 100 a second
        assert max(map(len, re.split("[\r\n]", screen.text))) <= 80
        with progress.stage("compiling"):
            clock.now = 9
            drawing.tick()
            clock.now = 12
            drawing.tick()
            assert re.search(r"compiling .* 8 s ", screen.text)
    assert screen.getvalue().endswith("\x1b[2K")  # the lines are erased
    assert "?25l" not in screen.getvalue()  # the cursor was never hidden


def test_what_is_written_takes_the_place_of_the_drawing(screen: Screenful) -> None:
    clock = Clock()
    drawing = Drawing(screen, clock)
    console = Console(err=screen, color="never")
    console.before_writing = drawing.clear
    with progress.listening(drawing), progress.stage("reading"):
        clock.now = 2
        drawing.tick()
        console.error("a message")
        assert screen.getvalue().endswith("\x1b[2Ka message\n")
        drawing.tick()
        assert re.search(r"a message\n\rreading .* 2 s ", screen.text)
    drawing.clear()


@pytest.mark.parametrize(
    ("terminal", "quiet", "term", "heard"),
    [
        (True, False, "xterm", True),
        (True, True, "xterm", False),
        (False, False, "xterm", False),
        (True, False, "dumb", False),
    ],
)
def test_only_a_terminal_shows_progress(
    terminal: bool, quiet: bool, term: str, heard: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    stream = Screenful() if terminal else io.StringIO()
    with drawn(Console(err=stream, quiet=quiet)):
        shown = progress.stage("a", total=1) is not progress.stage("b")
    assert shown is heard
    assert stream.getvalue() == ""


def test_durations() -> None:
    assert [duration(s) for s in (0, 59.6, 119, 200, 7199, 9000)] == [
        "0 s", "60 s", "119 s", "3 min", "120 min", "2.5 h",
    ]  # fmt: skip
