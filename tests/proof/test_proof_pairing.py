"""Layers are paired wholly; what was rewritten is proved, and nothing else is believed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from irdeconv.proof.model import Fact, Layer, Model, Obligation, Proof, Unproved
from irdeconv.proof.pairing import ProofVerdict, check
from proof_models import WEIGHTS, constant, model, network, operation, parameter, result, said


def deconvolution(input: int, filter: int, name: str = "d") -> Layer:
    data = {"strides": "2,2", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
    return operation("ConvolutionBackpropData", name, input, filter, **data)


def believing(*pairs: tuple[str, str]) -> Callable[[Obligation], Proof]:
    """Return a prover that takes values of layers with these names for equal."""

    def prove(task: Obligation) -> Proof:
        pair = task.source.of(task.wanted).name, task.lowered.of(task.output).name
        if pair not in pairs:
            raise Unproved(f"{pair[0]} is not {pair[1]}")
        return Proof("believed", "every size", every=True)

    return prove


def test_a_prover_is_given_only_the_values_that_the_layers_read() -> None:
    """What a long model has besides would make each proof longer, and keep it in memory."""
    asked: list[Obligation] = []
    believed = believing(*((f"s{i}", f"s{i}") for i in range(20)))

    def prove(task: Obligation) -> Proof:
        asked.append(task)
        return believed(task)

    def chain(type: str) -> Model:
        layers = [parameter()]
        for i in range(20):
            layers.append(operation(type, f"s{i}", 2 * i))
            layers.append(operation("ReLU", f"r{i}", 2 * i + 1))
        return model(*layers, result(40, "y"))

    verdict = check(chain("Sigmoid"), chain("Tanh"), provers=(prove,))
    assert (verdict.unequal, len(verdict.layers)) == ((), 20)
    for task in asked:
        assert task.twins == {
            task.lowered.of(task.output).inputs[0]: task.source.of(task.wanted).inputs[0]
        }


def test_a_model_equals_itself_in_any_order_and_by_any_name() -> None:
    other = model(
        parameter(),
        constant("v", WEIGHTS.copy()),
        operation("Sigmoid", "t", 0),
        operation("MatMul", "n", 2, 1, transpose_a="false"),
        result(3, "y"),
    )
    for lowered in (network(), other):
        verdict = check(network(), lowered)
        assert (verdict.problems, verdict.unequal, verdict.exit_code) == ((), (), 0)
        assert verdict.others == 2  # constants are not counted


def remembering(opset: str) -> Model:
    """Return a model that writes its input to a variable."""
    assign = operation("Assign", "a", 0, variable_id="v")
    return model(parameter(), replace(assign, version=opset), result(0, "y"))


def test_a_variable_is_written_by_the_same_operation() -> None:
    assert check(remembering("opset6"), remembering("opset6")).exit_code == 0
    for opset in ("opset4", "extension"):
        found = check(remembering("opset6"), remembering(opset))
        assert found.exit_code == 1
        assert "written variable 0 is " in found.problems[0]


CHANGED = {
    "attribute": (network(m=operation("MatMul", "m", 1, 2, transpose_a="true")), "transpose_a"),
    "version": (network(s=replace(network().layers[1], version="opset4")), "version"),
    "body": (network(s=operation("Sigmoid", "s", 0, rest="body")), "body"),
    "elements": (network(w=constant("w", WEIGHTS + 1)), "elements differ"),
    "negative_zero": (network(w=constant("w", WEIGHTS * -0.0)), "elements differ"),
    "element_type": (network(w=constant("w", WEIGHTS.view("<i4"), "i32")), "element_type"),
    "shape": (network(w=constant("w", WEIGHTS.reshape(4, 3))), "shape"),
    "skipped": (network(m=operation("MatMul", "m", 0, 2, transpose_a="false")), "not proved"),
    "order": (network(m=operation("MatMul", "m", 2, 1, transpose_a="false")), "not proved"),
    "input_shape": (network(x=parameter(shape=(3, 3))), "input 0"),
    "input_name": (network(x=parameter("z")), "input 0"),
    "output_name": (network(r=result(3, "z")), "output 0"),
    "output": (network(r=result(1, "y")), "not proved"),
    "another_output": (model(*network().layers, result(1, "z")), "2 outputs instead of 1"),
    "another_input": (model(*network().layers, parameter("z")), "2 inputs instead of 1"),
    "model": (replace(network(), rest="version 10"), "version 10"),
}


@pytest.mark.parametrize("case", sorted(CHANGED))
def test_any_difference_is_a_problem(case: str) -> None:
    lowered, message = CHANGED[case]
    for pair in ((network(), lowered), (lowered, network())):
        verdict = check(*pair, provers=())
        assert verdict.exit_code == 1
        assert pair[0] is lowered or message in "\n".join(said(verdict))


@pytest.mark.parametrize(
    ("type", "version"), [("RandomUniform", "opset8"), ("Dice", "mine"), ("Dice", "opset_of_mine")]
)
def test_operations_that_may_draw_numbers_are_no_two_of_one(type: str, version: str) -> None:
    def drawing(second: int) -> Model:
        return model(
            parameter(),
            replace(operation(type, "a", 0), version=version),
            replace(operation(type, "b", 0), version=version),
            operation("Subtract", "s", 1, second),
            result(3),
        )

    assert check(drawing(2), drawing(2)).passed
    assert not check(drawing(2), drawing(1)).passed
    assert not check(drawing(1), drawing(2)).passed


def test_variables_are_written_and_read_alike() -> None:
    def counting(added: int, *more: Layer, variable: str = "v") -> Model:
        return model(
            parameter(),
            operation("ReadValue", "v", 0, variable_id=variable),
            operation("Add", "a", 1, 0),
            operation("Assign", "w", added, variable_id="v"),
            result(2),
            *more,
        )

    assert check(counting(2), counting(2)).passed
    written = check(counting(2), counting(1))
    assert not written.passed
    assert "Assign" in written.unequal[0]
    assert not check(counting(2), counting(2, variable="u")).passed
    second = operation("Assign", "w2", 1, variable_id="v")
    assert not check(counting(2), counting(2, second)).passed
    assert not check(counting(2, second), counting(2)).passed
    assert not check(counting(2), model(*counting(2).layers[:3], result(2))).passed


def chain(names: str, *regions: bool) -> Model:
    """Return x -> (d | p, q) -> Sigmoid -> ..., where a region stands for a deconvolution."""
    layers = [parameter(), constant("w", WEIGHTS)]
    at = 0
    for number, region in enumerate(regions):
        if region:
            layers.append(operation("Pad", f"{names}p{number}", at))
            layers.append(operation("Convolution", f"{names}q{number}", len(layers) - 1, 1))
        else:
            layers.append(deconvolution(at, 1, f"{names}d{number}"))
        layers.append(operation("Sigmoid", f"{names}s{number}", len(layers) - 1))
        at = len(layers) - 1
    return model(*layers, result(at))


def test_a_rewritten_region_is_proved_and_all_behind_it_follows() -> None:
    provers = (believing(("d0", "q0"), ("d1", "q1")),)
    verdict = check(chain("", False, False), chain("", True, True), provers=provers)
    assert verdict.exit_code == 0, said(verdict)
    assert [(y.name, y.proof is not None) for y in verdict.layers] == [("d0", True), ("d1", True)]
    kept = check(chain("", False, False), chain("", True, False), provers=provers)
    assert (kept.passed, kept.kept) == (True, ("d1",))


def test_a_region_is_found_where_all_names_are_others() -> None:
    provers = (believing(("d0", "other q0"), ("d1", "other q1")),)
    verdict = check(chain("", False, False), chain("other ", True, True), provers=provers)
    assert verdict.exit_code == 0, said(verdict)


def test_what_is_not_proved_is_said_with_the_reason_of_each_prover() -> None:
    provers = (believing(), believing())
    verdict = check(chain("", False, False), chain("", True, True), provers=provers)
    assert verdict.exit_code == 1
    assert "d0 is not q0" in verdict.unequal[0]


def test_a_layer_that_was_taken_out_makes_its_input_and_output_one() -> None:
    source = model(
        parameter(),
        operation("Relu", "a", 0),
        operation("Identity", "i", 1),
        operation("Sigmoid", "b", 2),
        operation("Tanh", "c", 2),
        result(3),
        result(4),
    )
    lowered = model(
        parameter(),
        operation("Relu", "a", 0),
        operation("Sigmoid", "b", 1),
        operation("Tanh", "c", 1),
        result(2),
        result(3),
    )
    assert check(source, lowered, provers=(believing(("i", "a")),)).passed
    assert not check(source, lowered).passed


def compressed(stored: np.ndarray) -> Model:
    convert = operation("Convert", "w", 2, destination_type="f32")
    return model(
        parameter(),
        operation("Sigmoid", "s", 0),
        constant("w_compressed", stored, "f16"),
        convert,
        operation("MatMul", "m", 1, 3, transpose_a="false"),
        result(4, "y"),
    )


@pytest.mark.parametrize("number", [1e-9, 1e-7, 2.9e-6])
def test_a_number_that_f16_changes_by_more_than_it_rounds(number: float) -> None:
    """1e-9 is 0 in f16; those below 2^-15 have too few digits."""

    def scaling(kind: str, *, stored: bool, turned: bool = False) -> Model:
        held = np.array([number, 2], "<f2" if stored else "<f4")
        c = constant("c", held, "f16" if stored else "f32")
        widened = [operation("Convert", "w", 1, destination_type="f32")] * stored
        pair = (1 + stored, 0) if turned else (0, 1 + stored)
        return model(parameter(), c, *widened, operation(kind, "y", *pair), result(2 + stored))

    for kind, turned in (("Multiply", False), ("Divide", True), ("Divide", False)):
        verdict = check(*(scaling(kind, stored=stored, turned=turned) for stored in (False, True)))
        assert not verdict.passed, kind


def test_weights_in_f16_are_accepted_up_to_their_rounding() -> None:
    exact = (WEIGHTS / 3).astype("<f4")
    half = exact.astype("<f2")
    source = network(w=constant("w", exact))
    verdict = check(source, compressed(half))
    assert verdict.exit_code == 0
    assert 0 < verdict.rounding <= 2.0**-11
    assert "rounded" in "\n".join(verdict.lines())
    assert not check(source, compressed(np.nextafter(half, np.float16(9)))).passed
    large = network(w=constant("w", exact * np.float32(1e6)))
    with np.errstate(over="ignore"):
        assert not check(large, compressed((exact * np.float32(1e6)).astype("<f2"))).passed


def test_rounding_by_hand() -> None:
    """1/3 becomes 1365 / 2^12, and 2^-15 + 2^-25 becomes 2^-15, a change of 2^-10 / (1 + 2^-10)."""
    for number, change in ((1 / 3, 2.0**-12), (2.0**-15 + 2.0**-25, 1 / 1025)):
        exact = np.array([number, 0.0, -np.inf, -4.0], "<f4")
        found = check(network(w=constant("w", exact)), compressed(exact.astype("<f2")))
        assert found.passed
        assert found.rounding == pytest.approx(change, rel=1e-3)
    exact = np.array([0.5, -np.inf, 0.0], "<f4")
    assert check(network(w=constant("w", exact)), compressed(exact.astype("<f2"))).rounding == 0.0
    none = np.array([0.5, np.nan], "<f4")
    assert not check(network(w=constant("w", none)), compressed(none.astype("<f2"))).passed


def test_a_file_is_believed_only_where_that_is_said() -> None:
    asked: list[Fact] = []

    def asking(task: Obligation) -> Proof:
        asked.extend(task.fact(port) for port in task.source.of(task.wanted).inputs)
        return Proof("asked", "every size", every=False)

    source, lowered = chain("", False), chain("", True)
    verdict: ProofVerdict = check(source, lowered, provers=(asking,))
    assert (verdict.exit_code, verdict.assumed) == (3, ())
    assert asked == [Fact("f32", (2, 3)), Fact("f32", (3, 4))]
    given = Fact("f16", (7,))
    check(source, lowered, lambda port: given, (asking,))
    assert asked[2:] == [given, given]


def test_what_is_taken_as_declared_is_no_proof_of_every_size() -> None:
    def asking(task: Obligation) -> Proof:
        task.fact(task.source.of(task.wanted).inputs[0])
        return Proof("asked", "every size", every=True)

    first, second = chain("", False, False), chain("", False, True)
    alone = check(first, second, provers=(asking,))
    assert (alone.exit_code, alone.every) == (3, True)
    assert len(alone.assumed) == 1
    assert 'Sigmoid "s0" has type and shape as declared' in alone.assumed[0]
    assert alone.lines()[-1] == "equal for every size, if what is assumed is so"
    told = check(first, second, lambda port: Fact("f32", (2, 3)), (asking,))
    assert (told.exit_code, told.assumed) == (0, ())


def late(*inputs: int) -> Layer:
    return replace(operation("Identity", "i", *inputs), version="opset16")


def test_what_the_source_knows_beforehand_stays_known() -> None:
    """OpenVINO does not fold an Identity; many of its layers run with constants only."""
    for kind, want in (("Identity", False), ("Convert", True)):
        data = {} if kind == "Identity" else {"destination_type": "f32"}
        made = late(2) if kind == "Identity" else operation(kind, "i", 2, **data)
        product = operation("MatMul", "m", 1, 3, transpose_a="false")
        changed = model(
            parameter(),
            operation("Sigmoid", "s", 0),
            constant("w", WEIGHTS),
            made,
            product,
            result(4, "y"),
        )
        assert check(network(), changed).passed == want, kind


@pytest.mark.parametrize("kind", ["Const", "Identity"])
def test_the_axis_of_a_gather_is_known_beforehand(kind: str) -> None:
    """A Gather in a rewritten region; the same behind an Identity, at which OpenVINO stops."""
    axis = 3 if kind == "Identity" else 2
    layers = [
        parameter(),
        constant("at", np.array([0, 1]), "i64"),
        constant("axis", np.array(0), "i64"),
        *([late(2)] if kind == "Identity" else []),
    ]
    taken = replace(operation("Gather", "g", 0, 1, axis), version="opset8")
    layers += [taken, operation("Sigmoid", "s", len(layers)), result(len(layers) + 1, "y")]
    source = model(parameter(), operation("Sigmoid", "s", 0), result(1, "y"))
    verdict = check(source, model(*layers))
    assert verdict.passed == (kind == "Const"), verdict.lines()
    assert kind == "Const" or "does not know beforehand" in verdict.problems[0]
