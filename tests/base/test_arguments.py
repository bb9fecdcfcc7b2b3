"""Arguments of public functions that cannot be meant: one error, which names the argument."""

import json
from collections.abc import Callable
from inspect import isfunction, unwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
from irdeconv.base.arguments import checked

FUNCTIONS = {name: getattr(ird, name) for name in ird.__all__ if isfunction(getattr(ird, name))}
DECONV = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
X = np.zeros((1, 1, 3, 3), np.float32)
WRONG: dict[str, Callable[[], object]] = {
    "expected shapes: shapes by name, got list": lambda: ird.infer(DECONV, [1, 3, 4, 4]),  # type: ignore[arg-type]
    'for example, shapes={"x": [1, 3, 64, 64]}': lambda: ird.infer(DECONV, "x[1,3]"),  # type: ignore[arg-type]
    "to holds 3, which is no name": lambda: ird.extract(DECONV, to=["deconv", 3]),  # type: ignore[list-item]
    "expected limits: Limits": lambda: ird.read(DECONV, limits=5),  # type: ignore[arg-type]
    "expected weights: str | PathLike[str] | bytes | False | None": lambda: ird.read(DECONV, 5),  # type: ignore[arg-type]
    "expected target: str": lambda: ird.lower(DECONV, target=5),  # type: ignore[call-overload]
    "expected only: str | None": lambda: ird.lower(DECONV, only=["a"]),  # type: ignore[call-overload]
    "expected threads: int": lambda: ird.compile(DECONV, threads="2"),  # type: ignore[arg-type]
    "expected max_memory: int": lambda: ird.run(DECONV, max_memory="2G"),  # type: ignore[arg-type]
    "expected solve: int": lambda: ird.explain(DECONV, solve="8"),  # type: ignore[arg-type]
    "expected from_: str": lambda: ird.extract(DECONV, 5),  # type: ignore[arg-type]
    "expected text: str": lambda: ird.parse(5),  # type: ignore[arg-type]
    "expected check: str": lambda: ird.reduce(DECONV, check=5),  # type: ignore[arg-type]
    "expected names: Mapping": lambda: ird.rename(DECONV, "a=b"),  # type: ignore[arg-type]
    "expected pattern: tuple": lambda: ird.rename(DECONV, pattern="s/a/b/"),  # type: ignore[arg-type]
    "expected max_growth: int": lambda: ird.simplify(DECONV, max_growth="1M"),  # type: ignore[arg-type]
    "expected path: str": lambda: ird.write(DECONV, 5),  # type: ignore[arg-type]
    "expected time: float": lambda: ird.bench(DECONV, time="5s"),  # type: ignore[arg-type]
    "expected a model, got int": lambda: ird.convert(5),  # type: ignore[arg-type]
    "expected exact: bool, got str": lambda: ird.run(DECONV, exact="no"),  # type: ignore[arg-type]
    "expected tolerance: float | Mapping[str, float] | None, got": lambda: ird.compare(
        DECONV, DECONV, X, tolerance="0"
    ),  # type: ignore[arg-type]
    "expected folder: str | PathLike[str], got": lambda: ird.check_suite(5, {}),  # type: ignore[arg-type]
    'only is a list of names, not the text "p"': lambda: ird.raise_(DECONV, only="p"),
    'dialects is a list of names, not the text "t"': lambda: ird.suite("made", "t"),
    'against is a list of names, not the text "t"': lambda: ird.bench(DECONV, against="t"),
}


def test_every_public_function_checks_its_arguments() -> None:
    assert len(FUNCTIONS) > 25
    for name, function in FUNCTIONS.items():
        assert unwrap(function) is not function, name
        assert function.__code__.co_filename.endswith("arguments.py"), name


@pytest.mark.parametrize("text", WRONG)
def test_wrong_types(text: str) -> None:
    with pytest.raises(ird.ArgumentTypeError) as caught:
        WRONG[text]()
    assert text in str(caught.value)
    assert caught.value.diagnostics[0].hint


def test_numbers_and_paths_of_other_libraries() -> None:
    @checked
    def use(
        count: int = 0,
        part: float = 0.0,
        path: str | Path | None = None,
        names: Any = (),
        unknown: "Nothing" = 0,  # type: ignore[name-defined]  # noqa: F821
    ) -> int:
        return int(count)

    assert use(np.int64(3), np.float32(1), Path(), 5, unknown=6) == 3  # type: ignore[arg-type]
    assert use(True, 1) == 1
    with pytest.raises(TypeError, match=r'use has no argument "z"'):
        use(z=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_are_at_least_one(threads: int) -> None:
    with pytest.raises(ird.UsageError, match=f"threads is {threads}"):
        ird.compile(DECONV, threads=threads)


def test_a_second_array_is_no_trace() -> None:
    with pytest.raises(ird.UsageError, match="trace is no function; several inputs are one list"):
        ird.compile(DECONV).run(X, X)  # type: ignore[arg-type]


def test_measurements_are_not_kept_in_a_model() -> None:
    with pytest.raises(ird.UsageError, match=r'tune "a\.xml" is no \.json file'):
        ird.compile(DECONV, tune="a.xml")


def test_sizes_of_numpy_are_sizes() -> None:
    found = [ird.explain(DECONV, solve=n).to_dict() for n in (5, np.int64(5), np.array([5, 5]))]  # type: ignore[arg-type]
    json.dumps(found)
    assert found[0] == found[1]
    with pytest.raises(ird.UsageError, match=r"the wanted size 8\.5 must be an integer"):
        ird.explain(DECONV, solve=[8.5])  # type: ignore[list-item]


def test_a_hint_names_no_option_that_only_commands_have() -> None:
    with pytest.raises(ird.InputError, match=r"beside the \.xml, or name it with weights=$"):
        ird.read(DECONV, weights="nowhere.bin")
