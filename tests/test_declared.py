"""What a file declares beside what is inferred: every lie once, at the layer that tells it."""

from __future__ import annotations

from typing import Any

import pytest

import irdeconv as ird
from support import irbuild as ib

OUT = ib.port(1, (2, 3))


def relu(inputs: str, output: str) -> str:
    return ib.layer(1, "r", "ReLU", inputs=[inputs], outputs=[output])


def net(middle: str, end: str) -> bytes:
    result = ib.layer(2, "y", "Result", inputs=[end])
    layers = [ib.parameter(0, "x"), middle, result]
    edges = [
        '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>',
        '<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>',
    ]
    text = "\n".join(["<layers>", *layers, "</layers>", "<edges>", *edges, "</edges>"])
    return f'<?xml version="1.0"?>\n<net name="m" version="11">\n{text}\n</net>\n'.encode()


@pytest.mark.parametrize(
    ("middle", "end", "expected"),
    [
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3)), []),
        (relu(ib.port(0, (2, -1)), ib.port(1, (-1, 3))), ib.port(0, (2, 3)), []),
        # The lie about the output is repeated by the consumer; it is reported at its origin.
        (relu(ib.port(0, (2, 3)), ib.port(1, (9, 9))), ib.port(0, (9, 9)), [("W202", "r")]),
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (9, 9)), [("W202", "y")]),
        (relu(ib.port(0, (9,)), OUT), ib.port(0, (2, 3)), [("W202", "r")]),
        (relu(ib.port(0, (2, 3)), ib.port(1, (2, 3), "I64")), ib.port(0, (2, 3), "I64"),
         [("W203", "r")]),
        (relu(ib.port(0, (9, 9)), ib.port(1, (8, 8))), ib.port(0, (7, 7)),
         [("W202", "r"), ("W202", "r"), ("W202", "y")]),
    ],
)  # fmt: skip
def test_declarations(middle: str, end: str, expected: list[tuple[str, str]]) -> None:
    found = ird.validate(net(middle, end))
    assert [(d.code, d.layer) for d in found] == expected


@pytest.mark.parametrize(
    ("middle", "end", "line", "column"),
    [
        (relu(ib.port(0, (2, 3)), ib.port(1, (9, 9))), ib.port(0, (9, 9)), 10, 9),
        (relu(ib.port(0, (9, 9)), OUT), ib.port(0, (2, 3)), 9, 8),
        (relu(ib.port(0, (2, 3)), ib.port(1, (2, 3), "I64")), ib.port(0, (2, 3)), 10, 9),
        (relu(ib.port(0, (2, 3)), OUT), ib.port(0, (9, 9)), 13, 8),
    ],
)  # fmt: skip
def test_the_place_is_the_port(middle: str, end: str, line: int, column: int) -> None:
    found = ird.validate(net(middle, end))
    assert [d.location and d.location.position for d in found][:1] == [(line, column)]


def test_a_second_data_element_is_an_error() -> None:
    two = ib.layer(
        1,
        "c",
        "Convert",
        'destination_type="f16"/><data destination_type="i32"',
        inputs=[ib.port(0, (2, 3))],
        outputs=[ib.port(1, (2, 3), "FP16")],
    )
    found = ird.validate(net(two, ib.port(0, (2, 3), "FP16")))
    assert [(d.code, d.location and d.location.position) for d in found] == [("E108", (9, 31))]


def test_other_shapes_than_declared_are_no_mistake_where_they_are_asked_for() -> None:
    text = net(relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3)))
    assert ird.validate(text, shapes={"x": [7, 8]}) == []


@pytest.mark.parametrize("more", [{"weights": "net.bin"}, {"semantics": "document"}])
def test_a_graph_is_not_read_again(more: dict[str, Any]) -> None:
    graph = ird.read(net(relu(ib.port(0, (2, 3)), OUT), ib.port(0, (2, 3))))
    with pytest.raises(ird.UsageError, match=next(iter(more))):
        ird.validate(graph, **more)
