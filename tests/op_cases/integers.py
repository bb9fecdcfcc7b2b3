"""Functions and reductions of integers: rounded to the nearest, 8 bits saturate.

Expected numbers come from Python's math module and the rules of the machine's conversion.
"""

import math
from collections.abc import Callable

from op_cases import Case, Tensor, case, f32, f64, i8, i16, i64, tensor, u8

END = 2**31
NAN, INF = math.nan, math.inf
LAST = END - 128  # the last f32 in front of it
RANGES = {"u8": (0, 255), "i8": (-128, 127)}


def number(fn: Callable[[int], float], x: int) -> float:
    """What a function gives; poles and what has no value as IEEE arithmetic has them."""
    try:
        return fn(x)
    except OverflowError:
        return math.inf if fn is not math.sinh or x > 0 else -math.inf
    except ValueError:
        pole = {(math.log, 0): -math.inf, (math.atanh, 1): math.inf, (math.atanh, -1): -math.inf}
        return pole.get((fn, x), math.nan)


def machine(value: float, dtype: str, *, clips: bool) -> int:
    """A number as the runtime stores it: to 32 bits, then to the type."""
    if math.isnan(value):
        whole = LAST if clips and dtype == "u8" else -END
    elif clips:
        whole = round(min(max(value, -END), LAST))
    else:
        whole = round(value) if -END <= value < END else -END
    if dtype in RANGES:
        low, high = RANGES[dtype]
        return min(max(whole, low), high)
    bits = int(dtype[1:])
    return (whole + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) if dtype[0] == "i" else whole


POINTS = {
    "u8": [0, 1, 2, 3, 4, 5, 100, 255],
    "i8": [-128, -100, -3, -1, 0, 1, 2, 3, 127],
    "i16": [-1000, -3, -1, 0, 1, 2, 4, 1000],
    "i32": [-100, -4, -1, 0, 1, 2, 3, 100],
}


def rows(op: str, fn: Callable[[int], float], *, clips: bool = False) -> list[Case]:
    out = []
    for dtype, points in POINTS.items():
        want = [machine(number(fn, x), dtype, clips=clips) for x in points]
        out.append(case(op, "", [tensor(dtype, points)], tensor(dtype, want)))
    return out


def long(kind: Callable[..., Tensor], rows: list[list[int]], neutral: int = 0) -> Tensor:
    """Rows with so much behind them that inference does not carry the values."""
    return kind([[*row, *[neutral] * 4096] for row in rows])


FIRST = -END
REALS = [-3.7, 2.5, 255.5, 300.0, -129.0, 40000.0, 3e9, NAN, INF]


def converted(source: Callable[..., Tensor], want: dict[str, list[int]]) -> list[Case]:
    """Conversions of REALS."""
    return [
        case("Convert-1", f'destination_type="{t}"', [source(REALS)], tensor(t, values))
        for t, values in want.items()
    ]


TRUNCATED = {
    "u8": [253, 2, 255, 44, 127, 64, 0, 0, 0],
    "i8": [-3, 2, -1, 44, 127, 64, 0, 0, 0],
    "i16": [-3, 2, 255, 300, -129, -25536, 0, 0, 0],
    "u16": [65533, 2, 255, 300, 65407, 40000, 0, 0, 0],
    "i32": [-3, 2, 255, 300, -129, 40000, FIRST, FIRST, FIRST],
    "boolean": [1, 1, 1, 1, 1, 1, 1, 0, 1],
}
SATURATED = {
    "u8": [0, 2, 255, 255, 0, 255, 255, 0, 255],
    "i8": [-3, 2, 127, 127, -128, 127, 127, 0, 127],
    "i16": [-3, 2, 255, 300, -129, -25536, -1, 0, -1],
    "i32": [-3, 2, 255, 300, -129, 40000, END - 1, FIRST, END - 1],
}
DROP = 'keep_dims="false"'
CASES = [
    *rows("Sqrt-1", math.sqrt),
    *rows("Exp-1", math.exp),
    *rows("Log-1", math.log),
    *rows("Sin-1", math.sin),
    *rows("Cos-1", math.cos),
    *rows("Tan-1", math.tan),
    *rows("Asin-1", math.asin, clips=True),
    *rows("Acos-1", math.acos, clips=True),
    *rows("Atan-1", math.atan),
    *rows("Sinh-1", math.sinh, clips=True),
    *rows("Cosh-1", math.cosh, clips=True),
    *rows("Tanh-1", math.tanh),
    *rows("Asinh-4", math.asinh),
    *rows("Acosh-4", math.acosh, clips=True),
    *rows("Atanh-4", math.atanh, clips=True),
    *rows("Erf-1", math.erf),
    *rows("HSwish-4", lambda x: x * min(max(x + 3, 0), 6) / 6),
    *rows("HSigmoid-5", lambda x: min(max(x + 3, 0), 6) / 6),
    case(
        "ReduceSum-1", DROP, [long(i8, [[100, 27, 1], [-100, -20, -9]]), i64([1])], i8([127, -128])
    ),
    case("ReduceSum-1", DROP, [long(u8, [[200, 50], [200, 56]]), i64([1])], u8([250, 255])),
    case("ReduceProd-1", DROP, [long(i8, [[10, 11], [-10, 100]], 1), i64([1])], i8([110, -128])),
    case("ReduceSum-1", DROP, [long(i16, [[30000, 10000]]), i64([1])], i16([-25536])),
    *converted(f32, TRUNCATED),
    *converted(f64, SATURATED),
]
