"""Einsum; the sums are worked by hand."""

from __future__ import annotations

from op_cases import case, count, f16, f32, i32

A = f32([[1, 2], [3, 4]])
B = f32([[5, 6], [7, 8]])


def equation(text: str) -> str:
    return f'equation="{text}"'


CASES = [
    case("Einsum-7", equation("ij,jk-&gt;ik"), [A, B], f32([[19, 22], [43, 50]])),
    case("Einsum-7", equation("ij,jk"), [A, B], f32([[19, 22], [43, 50]])),
    case("Einsum-7", equation("ba"), [A], f32([[1, 3], [2, 4]])),
    case("Einsum-7", equation("ij-&gt;"), [A], f32(10)),
    case(
        "Einsum-7",
        equation("i j -&gt; j"),
        [A],
        f32([4, 6]),
        defect="an Einsum with spaces in its equation",
    ),
    case("Einsum-7", equation("ii-&gt;i"), [A], f32([1, 4])),
    case(
        "Einsum-7",
        equation("i,j-&gt;ij"),
        [f32([1, 2]), f32([3, 4, 5])],
        f32([[3, 4, 5], [6, 8, 10]]),
    ),
    case("Einsum-7", equation("...ii-&gt;...i"), [count((2, 2, 2))], f32([[0, 3], [4, 7]])),
    case(
        "Einsum-7",
        equation("...ij,jk-&gt;...ik"),
        [count((2, 1, 2)), B],
        f32([[[7, 8]], [[31, 36]]]),
    ),
    case("Einsum-7", equation("ab,b,ca-&gt;c"), [A, f32([1, 10]), f32([[1, 1]])], f32([64])),
    case("Einsum-7", equation("i,i-&gt;"), [i32([1, 2, 3]), i32([4, 5, 6])], i32(32)),
    case("Einsum-7", equation("i,i-&gt;"), [f16([1, 2]), f16([4, 5])], f16(14)),
]
