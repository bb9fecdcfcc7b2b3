"""Known faults of runtimes that change a lowered graph: trigger, versions, correct spelling.

A proof is about exact arithmetic on the graph; these faults change the graph afterwards. It refuses
a lowered graph that meets a fault of f32. docs/disagreements.md lists them. Tests show those of
int8 (tests/rewrite/test_int8.py) and open bounds (tests/proof/test_proof_language_live.py) in the
installed version. The other two were seen on processors with AVX-512.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from irdeconv.base.opening import parse_toml
from irdeconv.ops.core import Setting


@dataclass(frozen=True, kw_only=True)
class RuntimeFault:
    """One fault; `seen` are versions that have it, `absent` versions that were tried and do not."""

    name: str
    runtime: str
    seen: Sequence[str]
    absent: Sequence[str]
    trigger: str
    result: str
    spelling: str

    @property
    def versions(self) -> str:
        """The versions that have it, and those that do not."""
        absent = f", not {', '.join(self.absent)}" if self.absent else ""
        return f"{', '.join(self.seen)}{absent}"

    def __str__(self) -> str:
        head = f"{self.runtime} ({self.versions}): {self.trigger}: {self.result}"
        return f"{head}. Instead: {self.spelling}"


FAULTS = {
    name: RuntimeFault(name=name, **row)
    for name, row in parse_toml(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}


def faults_of_quantized(s: Setting) -> tuple[RuntimeFault, ...]:
    """Return the faults that concern a deconvolution of quantized data, itself or lowered.

    Sizes that are not integers are unknown, and concern nothing.
    """
    strided = [n for n in s.strides if n > 1]
    rest = any(isinstance(k, int) and k % n for k, n in zip(s.kernel, s.strides, strict=True))
    rows = (
        ("pad-of-one", 1 in s.size or len(strided) == 1),
        ("scale-per-group", isinstance(s.outputs, int) and s.outputs > s.groups > 1),
        ("zero-point-of-deconvolution", rest),
        ("depth-of-one", s.axes == 3 and s.size[0] == s.channels == 1),
    )
    return tuple(FAULTS[name] for name, concerned in rows if concerned)
