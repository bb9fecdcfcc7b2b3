"""What compiled functions see of numbers and arrays. Import it only where jit.available()."""

from __future__ import annotations

from typing import Any


def _bitcast() -> Any:
    from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from numba.extending import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        intrinsic,
    )

    def typed(context: Any, bits: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(types.float32))

        return types.float32(types.int32), generate

    return intrinsic(typed)


def _adjacent() -> Any:
    from numba import types  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from numba.core.imputils import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        impl_ret_borrowed,
    )
    from numba.extending import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        intrinsic,
    )

    def typed(context: Any, array: Any) -> Any:
        result = types.Array(array.dtype, 1, "C")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return impl_ret_borrowed(context, builder, result, args[0])

        return result(array), generate

    return intrinsic(typed)


bits_to_float: Any = _bitcast()

# A row of an array of any layout, as one whose elements are neighbours (which they have to be).
adjacent: Any = _adjacent()
