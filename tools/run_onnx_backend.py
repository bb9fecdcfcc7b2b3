"""Run the ONNX project's own backend node tests through convert and run, and count the results.

    python tools/run_onnx_backend.py                    all of the installed onnx
    python tools/run_onnx_backend.py resize gru         tests whose name has one of the words
    python tools/run_onnx_backend.py --list refused     with the name of each test

A test passes where every output has the expected shape and element type and lies within the test's
tolerance. It is refused where the model does not convert; reasons are counted. Everything else is
wrong, and the exit code is 1 then. A rule that has to know the value of an input gets a model in
which every input but the first is a constant. What is drawn at random is held to shape and element
type alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest import mock

import checkout  # noqa: F401
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

import irdeconv as ird
from irdeconv.formats.onnx_reader import read_onnx

WANTS_VALUES = ("is not a constant", "is unknown", "open size", "open dimensions")
RANDOM = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
STATES = ("passed", "wrong", "refused")
MANY = 10  # layers; graphs of more differ in the order in which they round
HELD = {"int4": np.int8, "uint4": np.uint8, "uint2": np.uint8}  # how the package has them
COARSE = {"float16": 2**-9, "bfloat16": 2**-6}


@dataclass(frozen=True)
class Outcome:
    """What became of one test: its state, the reason where it did not pass, its node types."""

    name: str
    state: str
    reason: str
    kinds: frozenset[str]


def node_tests() -> list[Any]:
    """Return the node tests of the installed onnx.

    All of them: onnx keeps what it collected, so that whoever asks first for those of one
    operation leaves the process without the others. Pools read images of 8 pixels instead of 32:
    onnx computes what is expected of them in loops, for 10 seconds. It also looks up the source of
    every test for its documentation, which takes as long as all the rest.
    """
    no_source = mock.patch("onnx.backend.test.case.base.process_snippet", return_value=("", ""))
    with warnings.catch_warnings(), no_source:
        warnings.simplefilter("ignore")
        with mock.patch("numpy.random.randn", _small_images):
            for name in ("averagepool", "lppool", "maxpool"):
                import_module(f"onnx.backend.test.case.node.{name}")
        return list(load_model_tests(kind="node"))


_randn = np.random.randn


def _small_images(*shape: int) -> Any:
    """Return random numbers, of 8 pixels an axis if a shape has three channels."""
    small = (*shape[:2], *(min(n, 8) for n in shape[2:]))
    return _randn(*(small if shape[1:2] == (3,) else shape))


def as_array(value: Any) -> Any:
    """Return a test's tensor as an array, integers below 8 bits in bytes."""
    array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    held = HELD.get(getattr(array, "dtype", np.dtype(object)).name)
    return array.astype(held) if held else array


def frozen(test: Any) -> Any:
    """Return the model with every input but the first as a constant: what rules need to know."""
    made = onnx.ModelProto()
    made.CopyFrom(test.model)
    pairs = list(zip(made.graph.input, test.data_sets[0][0], strict=True))
    for item, value in pairs[1:]:
        array = np.asarray(value)
        made.graph.initializer.append(numpy_helper.from_array(array, item.name))
    return made


def imported(test: Any) -> ird.Graph:
    """Return the test's graph; UnsupportedError where it does not convert."""
    try:
        return read_onnx(test.name, test.model.SerializeToString()).graph
    except ird.UnsupportedError as e:
        if not any(w in str(e) for w in WANTS_VALUES):
            raise
    return read_onnx(test.name, frozen(test).SerializeToString()).graph


def wide(x: Any) -> Any:
    """Return numbers as they compare: integers as they are, narrow floats in f64."""
    return x if x.dtype.kind in "biuOUST" else x.astype(np.float64)


def kinds_of(test: Any) -> frozenset[str]:
    """Return the node types of a test."""
    return frozenset(n.op_type for n in test.model.graph.node)


def check(test: Any, graph: ird.Graph) -> None:
    """Run a test's data through its graph; AssertionError where outputs are not as expected."""
    names = [i.name for i in test.model.graph.input]
    drawn = kinds_of(test) & RANDOM
    many = len(graph) > MANY
    for feeds, expected in test.data_sets:
        given = {k: as_array(v) for k, v in zip(names, feeds, strict=True) if k in graph.inputs}
        got = ird.run(graph, given, form=None)
        assert list(got) == [o.name for o in test.model.graph.output], f"outputs {list(got)}"
        for mine, value in zip(got.values(), map(as_array, expected), strict=True):
            want = np.asarray(value)
            assert mine.shape == want.shape, f"shape {mine.shape}, not {want.shape}"
            assert mine.dtype == want.dtype, f"element type {mine.dtype}, not {want.dtype}"
            if not drawn:
                compare(mine, want, test, COARSE.get(want.dtype.name, 0) if many else 0)


def compare(mine: Any, want: Any, test: Any, coarse: float) -> None:
    """Hold an output against the expected one within the test's tolerance or a coarser one."""
    if mine.dtype.kind in "OUST":
        np.testing.assert_array_equal(mine, want)
        return
    rtol = max(test.rtol, coarse)
    np.testing.assert_allclose(wide(mine), wide(want), rtol=rtol, atol=test.atol)


def refusals(error: ird.UnsupportedError) -> str:
    """Return the reasons of a refusal without the names of layers, the first two."""
    found = []
    for d in error.diagnostics:
        text = re.sub(r"^(\S+) \".*?\" \(operation set \d+\)", r"\1", d.message)
        if d.severity == "error" and text not in found:
            found.append(text)
    return "; ".join(found[:2])


def judge(test: Any) -> Outcome:
    """Convert and run one test."""
    kinds = kinds_of(test)
    try:
        graph = imported(test)
    except ird.UnsupportedError as e:
        return Outcome(test.name, "refused", refusals(e), kinds)
    except ird.IrdeconvError as e:
        return Outcome(test.name, "wrong", f"convert: {e}", kinds)
    try:
        check(test, graph)
    except (AssertionError, ird.IrdeconvError, TypeError, ValueError) as e:
        return Outcome(test.name, "wrong", " ".join(str(e).split())[:300], kinds)
    return Outcome(test.name, "passed", "", kinds)


def outcomes(words: Sequence[str] = ()) -> Iterator[Outcome]:
    """Judge the tests whose name has one of the words, or all."""
    for test in node_tests():
        if not words or any(w in test.name for w in words):
            yield judge(test)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of test names")
    parser.add_argument("--list", choices=STATES, action="append", default=[])
    options = parser.parse_args(arguments)
    found = list(outcomes(options.words))
    states = Counter(o.state for o in found)
    told = ", ".join(f"{states[s]} {s}" for s in STATES)
    print(f"ONNX {onnx.__version__}: {len(found)} node tests, {told}")
    for reason, count in Counter(o.reason for o in found if o.state == "refused").most_common():
        print(f"{count:5d}  {reason}")
    for o in found:
        if o.state in (*options.list, "wrong"):
            print(f"{o.state} {o.name}: {o.reason}")
    return 1 if states["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
