"""Matrix products that compiled code asks NumPy's BLAS for; imported only if numba is installed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from irdeconv.kernels import jit

ROW_MAJOR, AS_STORED, TRANSPOSED = 101, 111, 112  # of cblas.h


def _sgemm(bits: int) -> Any:
    """Make a function that calls, at an address, a `cblas_sgemm` whose integers have `bits`."""
    size, kind, real = ir.IntType(bits), ir.IntType(32), ir.FloatType()
    matrix = real.as_pointer()
    parameters = [kind] * 3 + [size] * 3 + [real, matrix, size, matrix, size, real, matrix, size]
    function = ir.FunctionType(ir.VoidType(), parameters).as_pointer()

    def typed(context: Any, place: Any, sizes: Any, arrays: Any, steps: Any, turned: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            def number(value: Any) -> Any:
                return builder.trunc(value, size) if bits < 64 else value

            def order(flag: Any) -> Any:
                chosen = builder.icmp_signed("!=", flag, flag.type(0))
                return builder.select(chosen, kind(TRANSPOSED), kind(AS_STORED))

            sizes, arrays, steps, turned = (cgutils.unpack_tuple(builder, v) for v in values[1:])
            a, b, out = (builder.inttoptr(v, matrix) for v in arrays)
            lda, ldb, ldc = map(number, steps)
            first = [kind(ROW_MAJOR), *map(order, turned), *map(number, sizes)]
            more = [real(1.0), a, lda, b, ldb, real(0.0), out, ldc]
            builder.call(builder.inttoptr(values[0], function), first + more)
            return context.get_dummy_value()

        three, two = (types.UniTuple(types.int64, n) for n in (3, 2))
        return types.void(types.int64, three, three, three, two), generate

    return intrinsic(typed)


_sgemm32, _sgemm64 = _sgemm(32), _sgemm(64)


@jit.compiled
def blas_products(place: int, wide: int, a: Any, b: Any, out: Any) -> None:
    """Write products a [P, Q, M, K] times b [P, Q, K, N] into out [P, Q, M, N].

    `place` is the address of the BLAS's function, whose integers have 64 bits if it is `wide`. The
    elements of each matrix are neighbours along one of its axes, those of `out` along the last.
    """
    sizes = a.shape[2], out.shape[3], a.shape[3]
    turned = int(a.strides[3] != 4), int(b.strides[3] != 4)
    steps = a.strides[2 + turned[0]] // 4, b.strides[2 + turned[1]] // 4, out.strides[2] // 4
    for p in range(out.shape[0]):
        for q in range(out.shape[1]):
            arrays = (
                a.ctypes.data + p * a.strides[0] + q * a.strides[1],
                b.ctypes.data + p * b.strides[0] + q * b.strides[1],
                out.ctypes.data + p * out.strides[0] + q * out.strides[1],
            )
            if wide:
                _sgemm64(place, sizes, arrays, steps, turned)
            else:
                _sgemm32(place, sizes, arrays, steps, turned)
