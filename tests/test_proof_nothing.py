"""Layers that give what they read are none to the proof; all others are some."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irdeconv.proof.model import Fact, Model
from irdeconv.proof.pairing import check
from support.pairing_models import (
    WEIGHTS,
    constant,
    model,
    network,
    operation,
    parameter,
    result,
    said,
)


def passed_on(type: str, opset: str = "opset1", port: int = 0, **data: str) -> Model:
    """Return a network that reads its input, or its weights, through a layer."""
    through = replace(operation(type, "i", port, **data), version=opset)
    ports = (2, 3) if port == 0 else (0, 2)
    return model(
        parameter(),
        constant("w", WEIGHTS),
        through,
        operation("Sigmoid", "s", ports[0]),
        operation("MatMul", "m", 3, 2 if port else 1, transpose_a="false"),
        result(4, "y"),
    )


@pytest.mark.parametrize("port", [0, 1])
def test_layers_that_give_what_they_read_are_none(port: int) -> None:
    for type, opset, data in (
        ("Identity", "opset16", {}),
        ("Convert", "opset1", {"destination_type": "f32"}),
    ):
        through = passed_on(type, opset, port, **data)
        pairs = [(network(), through), (through, through), (through, network())]
        # The weights are a constant, which OpenVINO does not see through an Identity.
        late = type == "Identity" and port == 1
        codes = [1 if late else 0, 0, 0]
        for (a, b), code in zip(pairs, codes, strict=True):
            found = check(a, b, lambda _: Fact("f32", None), provers=())
            assert (found.exit_code, said(found) == ()) == (code, code == 0), (type, port)


def test_a_convert_to_the_declared_type_is_assumed_to_be_none() -> None:
    through = passed_on("Convert", destination_type="f32")
    assert check(network(), through, provers=()).exit_code == 0  # an input is what it declares
    layers = list(network().layers)
    layers[1] = replace(layers[1], outputs=(Fact("f32", None),))
    later = model(
        *layers[:3],
        operation("Convert", "i", 1, destination_type="f32"),
        operation("MatMul", "m", 3, 2, transpose_a="false"),
        result(4, "y"),
    )
    found = check(model(*layers), later, provers=())
    assert (found.exit_code, len(found.assumed)) == (3, 1)


@pytest.mark.parametrize(
    ("type", "opset", "data"),
    [
        ("Convert", "opset1", {"destination_type": "f16"}),
        ("Convert", "opset1", {}),
        ("Convert", "opset1", {"destination_type": "f32", "more": "1"}),
        ("Convert", "extension", {"destination_type": "f32"}),
        ("Identity", "opset15", {}),
        ("Sigmoid", "opset1", {}),
    ],
)
def test_layers_that_change_what_they_read_or_may_are_some(
    type: str, opset: str, data: dict[str, str]
) -> None:
    for fact in (Fact("f32", None), Fact(None, None)):
        found = check(network(), passed_on(type, opset, **data), lambda _, f=fact: f, provers=())
        assert found.exit_code == 1
