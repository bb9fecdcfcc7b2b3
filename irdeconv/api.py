"""The public functions; each CLI verb calls the one of its name."""

from __future__ import annotations

from irdeconv.public.editing import extract, rename, simplify
from irdeconv.public.reading import convert, dump, in_file_order, infer, read, validate
from irdeconv.public.reducing import reduce
from irdeconv.public.rewriting import (
    DEFAULT_FORM,
    certify,
    check_certificate,
    lower,
    raise_,
    stage,
    to_openvino,
    write,
)
from irdeconv.public.running import bench, compile, run
from irdeconv.public.showing import compare, explain, inspect
from irdeconv.text import parse

__all__ = [
    "DEFAULT_FORM",
    "bench",
    "certify",
    "check_certificate",
    "compare",
    "compile",
    "convert",
    "dump",
    "explain",
    "extract",
    "in_file_order",
    "infer",
    "inspect",
    "lower",
    "parse",
    "raise_",
    "read",
    "reduce",
    "rename",
    "run",
    "simplify",
    "stage",
    "to_openvino",
    "validate",
    "write",
]
