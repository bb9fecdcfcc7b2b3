"""oneDNN Graph computes the same numbers and rejects the same layers, but for the listed kinds."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from support.dialect_layers import ONEDNN, DialectLayer, build, data, problems
from support.dialect_random import Spoil, changed, ints, one, random_layer
from support.rows import parts

try:
    metadata.distribution("onednn-cpu-gomp")
except metadata.PackageNotFoundError:
    pytest.skip("onednn-cpu-gomp is not installed", allow_module_level=True)
import onednn

pytestmark = pytest.mark.oracles

CHUNKS, PARTS, LEGAL, SPOILED = 4, 3, 200, 5

LISTS = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")

# Each changes attributes or shapes of a legal layer.
SPOILS: dict[str, Spoil] = {
    "stride": lambda r, la: {"strides": one(r, la.strides, int(r.integers(-1, 1)))},
    "dilation": lambda r, la: {"dilations": one(r, la.dilations, int(r.integers(-1, 1)))},
    "negative pads_begin": lambda r, la: {
        "pads_begin": one(r, la.get("pads_begin"), -int(r.integers(1, 4)))
    },
    "negative pads_end": lambda r, la: {
        "pads_end": one(r, la.get("pads_end"), -int(r.integers(1, 4))),
        "auto_pad": "none",
    },
    "large output_padding": lambda r, la: {"output_padding": la.strides},
    "negative output_padding": lambda r, la: {"output_padding": one(r, (0,) * la.axes, -1)},
    "list length": lambda r, la: {str(r.choice(LISTS)): (1,) * (la.axes + 1)},
    "missing list": lambda r, la: {str(r.choice(LISTS[:4])): None},
    "groups": lambda r, la: {"groups": int(r.integers(-1, 7))},
    "bias": lambda r, la: {"bias": int(r.choice([-1, 1]))},
    "channels": lambda r, la: {"surplus": int(r.integers(1, 3))},
    "filter rank": lambda r, la: {"ranks": 1},
    "kernel 0": lambda r, la: {"kernel": one(r, la.kernel, 0)},
    "large pads": lambda r, la: {
        "auto_pad": "none",
        "pads_begin": ints(r, la.axes, 0, 8),
        "pads_end": ints(r, la.axes, 0, 8),
    },
    "auto_pad": lambda r, la: {"auto_pad": str(r.choice(["same", "notset", "explicit"]))},
    "data_format": lambda r, la: {"data_format": str(r.choice(["NCHW", "NHWC"]))},
}


def job(layer: DialectLayer, arrays: list[Any], *, as_spelled: bool = False) -> onednn.Job:
    """The layer in the library's spelling: auto_pad in capitals, the filter as IOX or XOI.

    `as_spelled` leaves the layout and auto_pad as irdeconv reads them.
    """
    names = set(onednn.INTEGERS) | set(onednn.TEXTS)
    attributes = {k: v for k, v in layer.attributes.items() if k in names}
    attributes["weights_format"] = layer.layout
    x, w, *bias = arrays
    if not as_spelled:
        mode = layer.get("auto_pad", "none")
        attributes["auto_pad"] = "None" if mode == "none" else mode.upper()
        if layer.layout == "OIX":
            attributes["weights_format"], w = "IOX", np.moveaxis(w, 0, 1)
        elif layer.layout == "XIO":
            attributes["weights_format"], w = "XOI", np.swapaxes(w, -1, -2)
    return [x, w, *bias], attributes


# What the library computes, as it does not look, and irdeconv refuses on purpose.
REFUSED_ON_PURPOSE: dict[str, Callable[[DialectLayer], bool]] = {
    "a dilation of 0": lambda la: 0 in la.dilations,
    "output_padding of a wrong length": lambda la: (
        len(la.get("output_padding", ())) not in (0, la.axes)
    ),
    "negative output_padding": lambda la: min(la.get("output_padding") or (0,)) < 0,
}


def compare(layer: DialectLayer, arrays: list[Any], answer: onednn.Answer) -> str:
    """Hold irdeconv against the library's answer; return what became of the layer."""
    refused = problems(layer)
    if isinstance(answer, str):
        assert refused, (layer, answer)
        return "rejected"
    if refused:
        why = [name for name, applies in REFUSED_ON_PURPOSE.items() if applies(layer)]
        assert why, (layer, refused)
        return why[0]
    graph, feeds = build(layer, arrays)
    for form in (None, "zero-insertion"):
        got = ird.run(graph, feeds, form=form, fuse=False)["y"]
        assert got.shape == answer.shape, (form, layer)
        assert np.array_equal(got, answer), (form, layer)
    return "same"


def ask(cases: list[tuple[DialectLayer, list[Any]]], **how: Any) -> list[onednn.Answer]:
    return onednn.run([job(layer, arrays, **how) for layer, arrays in cases])


def cases(seed: int, kinds: list[str]) -> list[tuple[DialectLayer, list[Any]]]:
    made = []
    for k, kind in enumerate(kinds):
        rng = np.random.default_rng([seed, k])
        layer = random_layer(rng, ONEDNN, semantics="runtime")
        if kind:
            layer = changed(layer, SPOILS[kind](rng, layer))
        made.append((layer, data(layer, rng, np.float32)))
    return made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chunk", parts(2 * PARTS, CHUNKS * PARTS))
def test_onednn_computes_and_rejects_the_same(chunk: int) -> None:
    chunk, part = divmod(chunk, PARTS)
    made = cases(50 + chunk, [""] * LEGAL + list(SPOILS) * SPOILED)[part::PARTS]
    seen = Counter(
        compare(layer, arrays, answer)
        for (layer, arrays), answer in zip(made, ask(made), strict=True)
    )
    assert seen["same"] > 0.85 * LEGAL / PARTS, seen
    assert seen["rejected"] > 0.6 * len(SPOILS) * SPOILED / PARTS, seen
    assert sum(seen[name] for name in REFUSED_ON_PURPOSE) < 8, seen


def test_what_is_refused_on_purpose_is_documented() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "disagreements.md"
    text = page.read_text("utf-8")
    assert [name for name in REFUSED_ON_PURPOSE if f"| {name} |" not in text] == []


def test_the_grid_of_layouts() -> None:
    """Every data_format, layout and auto_pad with groups of unlike channel counts, 1D to 3D."""
    layers = [
        DialectLayer(ONEDNN, 2, (3, 4, 2)[:axes], 2, 2, 3, (3, 2, 4)[:axes], {
            "strides": (2, 3, 1)[:axes],
            "dilations": (1, 2, 2)[:axes],
            "pads_begin": (1, 0, 2)[:axes],
            "pads_end": (0, 1, 1)[:axes],
            "output_padding": (1, 2, 0)[:axes],
            "groups": 2,
            "auto_pad": auto_pad,
            "data_format": data_format,
            "weights_format": layout,
        }, bias=0)
        for axes in (1, 2, 3)
        for auto_pad in ("none", "same_upper", "same_lower", "valid")
        for data_format in ("NXC", "NCX")
        for layout in ("XIO", "OIX", "XOI", "IOX")
    ]  # fmt: skip
    rng = np.random.default_rng(60)
    made = [(layer, data(layer, rng, np.float32)) for layer in layers]
    seen = Counter(compare(*case, answer) for case, answer in zip(made, ask(made), strict=True))
    assert seen == {"same": 96}


def test_spellings_that_only_irdeconv_reads() -> None:
    """The library knows neither the document's filter layouts nor auto_pad in lower case."""
    made = cases(70, [""] * 60)
    made = [(layer, arrays) for layer, arrays in made if not problems(layer)]
    lower = [m for m in made if m[0].layout in ("IOX", "XOI")]
    other = [
        (replace(la, attributes=la.attributes | {"auto_pad": "VALID"}), arrays)
        for la, arrays in made
        if la.layout in ("OIX", "XIO")
    ]
    assert min(len(lower), len(other)) > 15
    for answer in ask(lower + other, as_spelled=True):
        assert isinstance(answer, str), answer
        assert "invalid operation" in answer


def test_the_default_layout_of_the_filter() -> None:
    """Without weights_format the library reads (*K, M/g, C), the document (*K, C, M/g)."""
    attributes = dict.fromkeys(("strides", "dilations"), (1,))
    attributes |= dict.fromkeys(("pads_begin", "pads_end"), (0,))
    layer = DialectLayer(ONEDNN, 1, (3,), 1, 2, 2, (2,), attributes)
    x, w = data(layer, np.random.default_rng(0), np.float32)
    (answer,) = onednn.run([([x, np.swapaxes(w, 1, 2)], dict(attributes))])
    graph, feeds = build(layer, [x, w])
    assert np.array_equal(ird.run(graph, feeds, fuse=False)["y"], answer)


def test_empty_data() -> None:
    """The library's process ends on some data with an empty axis; irdeconv computes the bias."""
    made = []
    for k in range(60):
        rng = np.random.default_rng([80, k])
        layer = random_layer(rng, ONEDNN, semantics="runtime")
        layer = replace(layer, size=one(rng, layer.size, 0))
        if not problems(layer):
            made.append((layer, data(layer, rng, np.float32)))
    answers = ask(made)
    computed = [
        compare(*m, a) for m, a in zip(made, answers, strict=True) if not isinstance(a, str)
    ]
    ended = [a for a in answers if isinstance(a, str)]
    assert set(computed) == {"same"}
    assert ended
    assert all("the process ended" in a for a in ended)
