"""The table of known differences from OpenVINO: a row explains what its layers have, nothing else.

No test of this file asks OpenVINO.
"""

import re

import irdeconv as ird
from irdeconv.formats.xml_writer import ir_bytes
from op_cases import all_cases
from support.live.differences import (
    BY_OTHER_MEANS,
    FILES,
    OWN_SIZES,
    PAGE,
    PORTS,
    UNUSED,
    explanation,
    lenient,
    of_a_whole,
    page,
    reason_for,
    table,
)
from support.live.judging import Finding, Verdict
from support.live.sample import answer, layer
from support.live.wholes import leaves_out
from support.rows import each_row

RANGES = "indices and labels out of range"
REFUSED = "only irdeconv"
DIFFERS = "output 0: 1 of 2 values; at [0] 1, OpenVINO 2"
OTHER_DIFFERENCES = (
    "irdeconv fails: KeyError", "output 0: type i32, OpenVINO i64", "output 0: inferred 2",
)  # fmt: skip
EXAMPLES = [(row.title, *example) for row in table() for example in row.examples]
ALONE = [e for e in EXAMPLES if e[1] == "differ"]
CODES = [e for e in EXAMPLES if re.fullmatch(r"E\d+", e[1])]
WITHIN = [e for e in EXAMPLES if e not in ALONE and e not in CODES]


def test_the_page_is_what_the_table_writes(update: bool) -> None:
    if update:
        PAGE.write_text(page(), "utf-8")
    assert PAGE.read_text("utf-8") == page(), "pytest --update"


def test_every_row_is_told_apart_and_recognised() -> None:
    """Rows of deconvolutions and documents have tests of their own, others have causes."""
    titles = [row.title for row in table()]
    assert len(titles) == len(set(titles))
    assert {row.title for row in table() if not row.causes and row.part != "plugin"} == {
        *BY_OTHER_MEANS,
        "results of bf16 that are not rounded",
    }
    causes = [(row.title, c) for row in table() for cs in row.causes.values() for c in cs]
    assert [title for title, c in causes if c.holds and not all(c.conditions)] == []


def test_defects_of_op_cases_are_rows() -> None:
    titles = {row.title for row in table()}
    assert {row.defect for row in all_cases().values() if row.defect} <= titles


@each_row(("title", "kind", "words", "fits", "misses"), ALONE)
def test_what_a_layer_does_alone(title: str, kind: str, words: str, fits: str, misses: str) -> None:
    """Other differences of it stay without an explanation, or one of a kind of sizes."""
    assert explanation(Verdict("differ", layer(fits), words or DIFFERS)) == title
    assert explanation(Verdict("differ", layer(misses), words or DIFFERS)) == ""
    for reason in OTHER_DIFFERENCES if not words else (DIFFERS, *OTHER_DIFFERENCES[:2]):
        assert explanation(Verdict("differ", layer(fits), reason)) != title


@each_row(("title", "code", "words", "fits", "misses"), CODES)
def test_what_is_refused(title: str, code: str, words: str, fits: str, misses: str) -> None:
    """Another refusal of the operation is not explained, nor is another code."""
    said = answer(layer(fits))
    assert said.kind == "refused"
    assert code in said.message
    assert explanation(Verdict("only OpenVINO", layer(fits), said.message)) == title
    assert explanation(Verdict("only OpenVINO", layer(misses), f"error[{code}]")) == ""
    assert explanation(Verdict("only OpenVINO", layer(fits), "error[E999]")) == ""


@each_row(("title", "kind", "words", "fits", "misses"), WITHIN)
def test_a_reason_is_what_the_layer_has(
    title: str, kind: str, words: str, fits: str, misses: str
) -> None:
    """The same fault of a layer that has nothing of the kind is not explained."""
    for one, why in ((layer(fits), title), (layer(misses), "")):
        alone = Verdict("differ" if kind == "values" else kind, one, words)  # type: ignore[arg-type]
        assert reason_for(Finding(kind, one.type, words), alone) == why
    assert reason_for(Finding(kind, layer(fits).type, words), None) == ""


@each_row(
    ("error", "why"),
    [
        ('a:1:2: error[E212]: Slice "s": the precision "x" is not an element type', "ports"),
        ('a:1:2: error[E303]: SoftMax "s": data is i8; it must be a floating-point type', "elem"),
        ('a:1:2: error[E303]: Add "s": data is i8; it must be a floating-point type', ""),
        ('a:1:2: error[E500]: Add "s": batch_indices has 7 at 0; there are 2 images', ""),
        ("a:1:1: error[E209]: the model has no Result, so nothing of it is computed", "models"),
        ("something else", ""),
    ],
)
def test_leniency_is_of_one_code_and_operation(error: str, why: str) -> None:
    assert lenient(error).startswith(why)
    assert bool(lenient(error)) == bool(why)


TWINS = b"""<net><layers>
<layer id="0" name="x" type="Parameter"/>
<layer id="1" name="first" type="ReLU"/>
<layer id="2" name="second" type="ReLU"/>
<layer id="3" name="y" type="Result"/>
</layers><edges><edge from-layer="0" to-layer="1"/><edge from-layer="0" to-layer="2"/>
<edge from-layer="1" to-layer="3"/></edges></net>"""


@each_row(
    ("xml", "titles"),
    {
        "no Result needs it": (TWINS, {"first": "", "second": UNUSED}),
        "of one id": (TWINS.replace(b'id="2"', b'id="1"'), {"first": PORTS, "second": ""}),
        "the line tells which": (re.sub(b"first|second", b"twin", TWINS), {3: "", 4: UNUSED}),
    },
)
def test_layers_are_looked_at_in_the_file(xml: bytes, titles: dict[str | int, str]) -> None:
    for key, title in titles.items():
        line, name = (key, "twin") if isinstance(key, int) else (3 + (key == "second"), key)
        assert lenient(f'm.xml:{line}:1: error[E301]: ReLU "{name}": it is wrong', xml) == title


@each_row(("source", "title"), [("0", OWN_SIZES), ("1", "")])
def test_sizes_of_a_reshape_are_looked_at_in_the_file(source: str, title: str) -> None:
    kinds = ["Parameter", "Parameter", "ShapeOf", "Gather", "Reshape", "Result"]
    layers = (f'<layer id="{i}" name="n{i}" type="{kind}"/>' for i, kind in enumerate(kinds))
    edges = (
        f'<edge from-layer="{a}" from-port="0" to-layer="{b}" to-port="{port}"/>'
        for a, b, port in ((source, 2, 0), (2, 3, 0), (0, 4, 0), (3, 4, 1), (4, 5, 0))
    )
    xml = f"<net><layers>{''.join(layers)}</layers><edges>{''.join(edges)}</edges></net>"
    assert lenient('m.xml:1:1: error[E500]: Reshape "n4": they do not fill', xml.encode()) == title


@each_row(("text", "title"), [("a<b", FILES), ("a&b;", FILES), ("a&lt;b", ""), ("a&#65;", "")])
def test_characters_that_openvino_reads(text: str, title: str) -> None:
    xml = f'<net><layers name="{text}"></net>'
    assert lenient("m.xml:1:1: error[E101]: not well-formed XML", xml.encode()) == title


@each_row(("ratio", "title"), [("-1", "a sampling_ratio below 0"), ("1", ""), ("x", "")])
def test_attributes_are_looked_at_in_the_file(ratio: str, title: str) -> None:
    xml = f"""<net><layers>
<layer id="1" name="r" type="ROIAlign" version="opset3"><data sampling_ratio="{ratio}"/></layer>
<layer id="3" name="y" type="Result"/>
</layers><edges><edge from-layer="1" to-layer="3"/></edges></net>"""
    error = 'm.xml:2:1: error[E210]: ROIAlign "r": sampling_ratio must not be negative'
    assert lenient(error, xml.encode()) == title


@each_row(("shape", "title"), [("1,?,2", RANGES), ("0,3", RANGES), ("1,10,2", "")])
def test_an_axis_is_looked_at_where_there_are_data(shape: str, title: str) -> None:
    error = 'm.xml:2:1: error[E305]: CumSum "c": axis 11 is outside a tensor of rank 3 (-3 to 2)'
    assert lenient(f'{error}\nnote: data is f16[{shape}] from "x"') == title


SHAPE_ONLY = """graph 1 "m" <ir_version = 11> {
  %0 "x" = opset1.Parameter() {shape = [?], element_type = f32}
  %1 "to" = opset1.Const() {element_type = i64, shape = [2], data = [2, 3]}
  %2 "moved" = opset1.Reshape(%0, %1) {special_zero = false}
  %3 "shape" = opset3.ShapeOf(%2) {output_type = i64}
  %4 "y" = opset1.Result(%3)
  %5 "z" = opset1.Result(%0)
}"""


def test_what_only_a_known_shape_is_read_of_is_left_out() -> None:
    graph = ird.infer(ird.parse(SHAPE_ONLY))
    error = 'm.xml:2:1: error[E500]: {} "{}": it does not fit'
    assert leaves_out(graph, error.format("Reshape", "moved"))
    assert not leaves_out(graph, error.format("Parameter", "x"))
    assert not leaves_out(graph, "m.xml:2:1: error[E500]: it does not fit")


LOOP = """graph 1 "m" <ir_version = 11> {{
  %0 "x" = opset1.Parameter() {{shape = [1, 2], element_type = f32}}
  %1 "trips" = opset1.Const() {{element_type = i32, shape = [], data = [{trips}]}}
  %2 "begins" = opset1.Const() {{element_type = boolean, shape = [], data = b"AQ=="}}
  %3 "loop" = opset5.Loop(%1, %2, %0)
    body {{inputs = [[0, 2]], outputs = [[2, none, none, true], [1, 0]], edges = [[1, 0]]}} {{
      %0 "a" = opset1.Parameter() {{shape = [1, 2], element_type = f32}}
      %1 "again" = opset1.Result(%0)
      %3 "go" = opset1.Const() {{element_type = boolean, shape = [], data = b"AQ=="}}
      %2 "going" = opset1.Result(%3)
    }}
  %4 "out" = opset1.Result(%3)
}}"""


@each_row(
    ("trips", "begins", "message", "why"),
    [
        (-2, 1, "overflow while multiplying dim", "a Loop of a trip_count below -1"),
        (0, 1, "Shape mismatch for tensor iterator", "a Loop that never begins"),
        (3, 255, "Shape mismatch for tensor iterator", "booleans that are neither 0 nor 1"),
        (3, 1, "Shape mismatch for tensor iterator", ""),
        (-1, 1, "overflow while multiplying dim", ""),
    ],
)
def test_a_loop_is_explained_by_its_numbers(
    trips: int, begins: int, message: str, why: str
) -> None:
    xml, weights = ir_bytes(ird.infer(ird.parse(LOOP.format(trips=trips))))
    offset = re.search(rb'name="begins".*?offset="(\d+)"', xml, re.DOTALL)
    assert offset is not None
    at = int(offset[1])
    weights = weights[:at] + bytes([begins]) + weights[at + 1 :]
    graph = ird.infer(ird.read(xml, weights))
    assert of_a_whole(Finding(REFUSED, "", message), graph) == why
