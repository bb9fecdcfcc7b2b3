"""The bits of numbers inside compiled functions. Import it only where jit.available()."""

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


bits_to_float: Any = _bitcast()
