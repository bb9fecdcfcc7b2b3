"""Places: anchors to lines and columns, attributes, carets."""

from __future__ import annotations

import pytest

from irdeconv.base.source import Anchor, Location, SourceFile

TEXT = """<?xml version="1.0"?>
<net name="m" version="11">
  <layers><!-- a comment -->
    <layer id="0" name="é" type="A"><data x="1" y="2"/><output><port id="0"><dim>5</dim></port>\
</output></layer>
    <layer id="1"
           name="b">
      <data
        strides="1,1"/>
      <body><layers><layer id="7"/></layers></body>
    </layer><layer id="2"/>
  </layers>
  <edges>
    <edge from-layer="0"/>
  </edges>
</net>
"""

PLACES = [
    (Anchor(), (2, 1)),
    (Anchor("layers"), (3, 3)),
    (Anchor("layers", 0), (4, 5)),
    (Anchor("layers", 0, 1), (4, 37)),
    (Anchor("layers", 0, 3), (4, 64)),
    (Anchor("layers", 0, 4), (4, 77)),
    (Anchor("layers", 1), (5, 5)),
    (Anchor("layers", 1, 1), (7, 7)),
    (Anchor("layers", 1, 4), (9, 21)),
    (Anchor("layers", 2), (10, 13)),
    (Anchor("edges", 0), (13, 5)),
    (Anchor("layers", 3), None),
    (Anchor("layers", 2, 1), None),
    (Anchor("other"), None),
]


@pytest.mark.parametrize(("anchor", "expected"), PLACES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_elements(anchor: Anchor, expected: tuple[int, int] | None, encoding: str) -> None:
    text = TEXT.encode(encoding)
    found = SourceFile("net.xml", text).position(anchor)
    if encoding == "utf-16" and expected is not None:
        assert found is not None
        assert found.line == expected[0]
    else:
        assert (found and (found.line, found.column)) == expected


ATTRIBUTES = [
    (Anchor("layers", 0), "name", (4, 19)),
    (Anchor("layers", 0), "y", (4, 49)),  # of the layer's <data>
    (Anchor("layers", 0, 1), "y", (4, 49)),
    (Anchor("layers", 1), "name", (6, 12)),
    (Anchor("layers", 1), "strides", (8, 9)),
    (Anchor("layers", 1, 1), "strides", (8, 9)),
    (Anchor("layers", 1), "nothing", (5, 5)),
    (Anchor("edges", 0), "from-layer", (13, 11)),
    (Anchor(), "version", (2, 15)),
]


@pytest.mark.parametrize(("anchor", "name", "expected"), ATTRIBUTES)
def test_attributes(anchor: Anchor, name: str, expected: tuple[int, int]) -> None:
    source = SourceFile("net.xml", TEXT.encode())
    assert Location(source, anchor).at(name).position == expected


def test_many_items_and_fragments() -> None:
    row = '<layer id="1">\n<data/><output><port id="0"/></output></layer>\n'
    source = SourceFile("n", f"<net><layers>\n{row * 200}</layers></net>".encode())
    for item in (0, 199, 3, 120):
        where = source.position(Anchor("layers", item, 3))
        assert where is not None
        assert (where.line, where.column) == (2 * item + 3, 16)
        assert source.data[where.offset :].startswith(b"<port")


def test_positions_stop_where_the_file_is_malformed() -> None:
    source = SourceFile("n", b"<net>\n<layers>\n<layer/>\n<layer")
    assert source.position(Anchor("layers", 0)) is not None
    assert source.position(Anchor("layers", 1)) is None


def test_snippet() -> None:
    source = SourceFile("net.xml", b'<net>\n\t<layers>\n<layer id="1"/>\n</layers>\n</net>\n')
    assert Location(source, Anchor("layers", 0), "id").snippet() == [
        '   3 | <layer id="1"/>',
        "     |        ^",
    ]
    assert Location(source, Anchor("layers")).snippet()[1].endswith("|  ^")
    assert Location(source, fixed=(99, 1)).snippet() == []
    assert str(Location(source, Anchor("layers"))) == "net.xml:2:2"


def test_snippet_of_a_long_line() -> None:
    source = SourceFile("n", b"<net><layers>" + b" " * 500 + b'<layer id="1"/></layers></net>')
    text, caret = Location(source, Anchor("layers", 0)).snippet()
    assert text[caret.index("^")] == "<"
    assert len(text) < 120
