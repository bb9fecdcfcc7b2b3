"""What peers compute otherwise on some processors."""

import platform
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import __cpu_features__

X86 = platform.machine() in ("x86_64", "AMD64")
# OpenVINO rounds no results to bf16 there, and has other kernels.
LACKS_AVX512 = X86 and not __cpu_features__.get("AVX512F")
# ONNX Runtime and oneDNN add two products of u8 and i8 in 16 bits: 2*255*128 saturates.
LACKS_VNNI = X86 and not __cpu_features__.get("AVX512VNNI")


def fitting(levels: Any) -> Any:
    """Return levels of i8, halved where sums of two products would saturate; others as they are."""
    return levels // 2 if LACKS_VNNI and levels.dtype == np.int8 else levels
