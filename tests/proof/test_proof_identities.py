"""What the proof's core knows of identities, of nothing, and its limits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from irdeconv.base.limits import Limits
from irdeconv.proof import linear, pairing, reader, symbolic
from irdeconv.proof.model import Fact, Layer, Model, TypedArray
from irdeconv.proof.pairing import check
from pair_texts import kinds
from proof_models import WEIGHTS, constant, model, network, operation, parameter, result, said

# Things of different kinds that could be taken for one: numbers of elements, names, types.

CONVOLVED = {"strides": "1", "pads_begin": "0", "pads_end": "0", "dilations": "1"}


def vector(name: str, *values: int) -> Layer:
    return constant(name, np.array(values, np.int64), "i64")


def filter_as_bias() -> Model:
    """Return both phases of a deconvolution by w, which adds the first two elements of w."""
    layers = [
        parameter("x", (1, 1, 2)),
        parameter("w", (1, 2, 2)),
        *(vector(str(i), i) for i in range(3)),  # at 2, 3, 4
        vector("filter", 2, 1, 1),
        vector("bias", 1, 2, 1),
        vector("output", 1, 2, 4),
        operation("Slice", "row", 1, 2, 3, 3, 3),
        operation("Reshape", "b", 8, 6, special_zero="false"),
    ]
    for k in range(2):
        at = len(layers)
        layers += [
            operation("Slice", f"w{k}", 1, 2 + k, 3 + k, 3, 4),
            operation("Reshape", f"f{k}", at, 5, special_zero="false"),
            operation("Convolution", f"c{k}", 0, at + 1, **CONVOLVED),
            operation("Add", f"a{k}", at + 2, 9, auto_broadcast="numpy"),
            vector(f"last{k}", 3),
            operation("Unsqueeze", f"u{k}", at + 3, at + 4),
        ]
    at = len(layers)
    layers += [
        operation("Concat", "joined", at - 7, at - 1, axis="3"),
        operation("Reshape", "y", at, 7, special_zero="false"),
        result(at + 1),
    ]
    return model(*(replace(y, version="opset8") for y in layers))


def constant_bias(*bias: float) -> Model:
    layers = [
        parameter("x", (1, 1, 2)),
        parameter("w", (1, 2, 2)),
        constant("b", np.array(bias, np.float32).reshape(1, 2, 1)),
        operation("ConvolutionBackpropData", "d", 0, 1, **{**CONVOLVED, "strides": "2"}),
        operation("Add", "y", 3, 2, auto_broadcast="numpy"),
        result(4),
    ]
    return model(*(replace(y, version="opset8") for y in layers))


@pytest.mark.parametrize("first", [-1, 0, 1, 4])
def test_numbers_of_elements_that_are_joined_are_no_constant(first: int) -> None:
    """Elements of the filter have numbers from 0 on; a bias of 0 and 1 is something else."""
    assert check(constant_bias(first, first + 1), filter_as_bias()).exit_code == 1


def inserted(fill: str = "f32", broadcast: str = "numpy") -> Model:
    """Return a deconvolution by zero insertion: a Pad, with a value of some type, then a mask."""
    layers = [
        parameter("x", (1, 1, 3)),
        vector("apart", 1, 1, 3, 1),
        vector("none", 0, 0, 0, 0),
        vector("behind", 0, 0, 0, 1),
        replace(constant("fill", np.zeros((), np.float32)), elements=TypedArray(ZERO[fill], fill)),
        constant("mask", np.array([[[[1, 0]]]], np.float32)),
        vector("output", 1, 1, 6),
        vector("before", 0, 0, 1),
        vector("nothing", 0, 0, 0),
        constant("w", np.array([[[5, 3]]], np.float32)),
        operation("Reshape", "r", 0, 1, special_zero="false"),
        operation("Pad", "p", 10, 2, 3, 4, pad_mode="constant"),
        operation("Multiply", "m", 11, 5, auto_broadcast=broadcast),
        operation("Reshape", "z", 12, 6, special_zero="false"),
        operation("Pad", "q", 13, 7, 8, pad_mode="constant"),
        operation("Convolution", "y", 14, 9, **CONVOLVED),
        result(15),
    ]
    return model(*(replace(y, version="opset8") for y in layers))


ZERO = {"f32": np.zeros((), np.float32), "f16": np.zeros((), np.float16), "i32": np.array(0)}


def test_openvino_pads_with_a_value_of_the_same_type_and_broadcasts_only_if_told() -> None:
    original = model(
        parameter("x", (1, 1, 3)),
        constant("w", np.array([[[3, 5]]], np.float32)),
        operation("ConvolutionBackpropData", "d", 0, 1, **{**CONVOLVED, "strides": "2"}),
        result(2),
    )
    assert check(original, inserted()).exit_code == 0
    for odd in (inserted("f16"), inserted("i32"), inserted(broadcast="none")):
        assert check(original, odd).exit_code == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [((), ("nothing",)), (("b", "a\\"), ("a\\, b",)), (("a", "b"), ("a, b",)), (("'a'",), ("a",))],
)
def test_names_are_what_they_are(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    def named(names: tuple[str, ...]) -> Model:
        return model(
            replace(parameter("x", (2,)), names=(tuple(sorted(names)),)),
            operation("Sigmoid", "s", 0),
            result(1),
        )

    assert check(named(first), named(first)).exit_code == 0
    assert "instead of" in check(named(first), named(second)).problems[0]


def test_the_name_of_a_variable_is_no_attribute() -> None:
    def written(**said: str) -> Model:
        return model(parameter("x", (2,)), operation("Assign", "a", 0, **said), result(0, "y"))

    assert check(written(variable_id="v"), written(variable_id="v")).exit_code == 0
    assert not check(written(variable_id='v" x="1'), written(variable_id="v", x="1")).passed


# Layers that give what they read are none to the proof; all others are some.


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
        for (a, b), code in zip(pairs, [1 if late else 0, 0, 0], strict=True):
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


REFUSED = kinds("refused")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_too_much_or_meets_a_fault_is_refused(name: str, tmp_path: Path) -> None:
    (pair,) = REFUSED[name]
    verdict = pairing.check(*map(reader.read, pair.write(tmp_path)))
    assert not verdict.passed
    assert pair.expect in " ".join((*verdict.unequal, *verdict.problems))


def test_the_proof_takes_on_whatever_a_lowering_may_emit() -> None:
    """Of a phase are a Pad or slice, a convolution and the constants that they read."""
    for most in (symbolic.MOST_LAYERS, linear.MOST_LAYERS):
        assert most >= 4 * Limits().lowered_nodes
