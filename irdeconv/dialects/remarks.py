"""Warnings that several dialects give of layers that documents and runtimes read differently."""

from __future__ import annotations

from collections.abc import Iterator

from irdeconv.dialects.setting import Setting
from irdeconv.errors import Problem


def large_padding(s: Setting, words: str) -> Iterator[Problem]:
    """Yield where output_padding is not below the stride."""
    if any(p >= stride for p, stride in zip(s.output_padding, s.strides, strict=True)):
        yield Problem(
            "W301",
            f"output_padding {list(s.output_padding)} is not below the strides "
            f"{list(s.strides)}: {words}",
            "warning",
            attribute="output_padding",
        )
