"""Inference of inputs that make no sense: a result or an OpError, never another exception."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest

from irdeconv.base.errors import OpError
from irdeconv.ir.dtypes import ELEMENT_TYPES
from irdeconv.ir.op import infer_op, ports
from irdeconv.ir.spec import DYNAMIC, Dim, Interval, Spec
from op_cases import Case, all_cases

pytestmark = pytest.mark.thorough

CASES = all_cases()
TYPES = [ELEMENT_TYPES[n] for n in ("f32", "f16", "i64", "i32", "u8", "boolean")]
DIMS: list[Dim] = [0, 1, 2, 3, 7, DYNAMIC, Interval(1, 4), Interval(2, None)]


def random_spec(r: random.Random) -> Spec:
    dtype = r.choice([*TYPES, None])
    if r.random() < 0.1:
        return Spec(dtype, None)
    shape = tuple(r.choice(DIMS) for _ in range(r.randint(0, 4)))
    spec = Spec(dtype, shape)
    if spec.size is None or spec.size > 64 or dtype is None or r.random() < 0.4:
        return spec
    values = np.array([r.randint(-3, 5) for _ in range(spec.size)]).reshape(spec.shape)
    if dtype.is_integral and spec.size and r.random() < 0.3:
        loose = values.astype(object)
        loose.reshape(-1)[0] = r.choice([DYNAMIC, Interval(-2, 3), Interval(1, 2)])
        return Spec(dtype, shape, loose)
    return Spec(dtype, shape, values.astype(dtype.container))


def answered(row: Case, tries: int) -> None:
    r = random.Random(row.op)
    op, _ = row.build()
    for _ in range(tries):
        specs = [t.spec for t in row.inputs]
        for at in range(len(specs)):
            if r.random() < 0.5:
                specs[at] = random_spec(r)
        assert ports(type(op)).fits(len(specs))
        with contextlib.suppress(OpError):
            infer_op(op, tuple(specs))


@pytest.mark.parametrize("row", CASES.values(), ids=CASES.keys())
def test_nothing_but_op_errors(row: Case) -> None:
    answered(row, 20)


@pytest.mark.slow
def test_nothing_but_op_errors_in_many_tries() -> None:
    for row in CASES.values():
        answered(row, 200)
