"""What a target can do and what work costs there: profiles as TOML files.

Every key may be absent; then nothing is limited. `irdeconv/passes/profiles/` holds those that have
a name. docs/lowering.md, "Targets", has an example.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from irdeconv.errors import Collector, UsageError, misused
from irdeconv.limits import current
from irdeconv.opening import parse_toml, read_toml, shown
from irdeconv.suggest import did_you_mean

DEFAULT_TARGET = "generic"
HIGHEST_COUNT, HIGHEST_WEIGHT = 2**31 - 1, 1e30  # products of these stay finite


@dataclass(frozen=True)
class ScoreWeights:
    """What one unit of each cost counts in the score; only their ratios matter.

    `mac` per multiply-accumulate, `byte` per byte read or written, `scratch` per byte of the
    largest set of intermediates alive at once, `node` per operation.
    """

    mac: float = 1.0
    byte: float = 2.5
    scratch: float = 0.0
    node: float = 60000.0


@dataclass(frozen=True)
class Profile:
    """A target; None means no limit. Each field is a key of the file.

    The limits apply to the layers that a lowering makes. `max_kernel` and `max_dilation` are those
    of a convolution along any axis. `max_stride` limits the insertion of zeros and the interleaving
    of results; the convolutions have stride 1. `max_groups` 1 forbids grouped convolutions,
    `max_spatial_axes` 2 forbids 3D. `pad` and `crop` are Pad with positive and with negative
    amounts. Without `depth_to_space`, `strided_write` interleaves by Reshape, Transpose, Reshape,
    as it always does for grouped stacks and for strides that differ by axis. `non_constant_filters`
    are filters computed at run time. `channel_alignment`: channels of a group are rounded up to a
    multiple of it when products are counted for the score. `skips_inserted_zeros`: products with
    inserted zeros take no time, and ZeroInsertion takes neither time nor memory.
    """

    name: str = "unlimited"
    description: str = ""
    max_kernel: int | None = None
    max_stride: int | None = None
    max_dilation: int | None = None
    max_groups: int | None = None
    max_spatial_axes: int | None = None
    pad: bool = True
    crop: bool = True
    zero_insertion: bool = True
    depth_to_space: bool = True
    strided_write: bool = True
    non_constant_filters: bool = True
    channel_alignment: int = 1
    skips_inserted_zeros: bool = False
    weights: ScoreWeights = ScoreWeights()


def profile_names() -> list[str]:
    """Return the names of the packaged profiles."""
    folder = files("irdeconv.passes") / "profiles"
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name[-5:] == ".toml")


def load_profile(target: str | PathLike[str] | Profile | None = None) -> Profile:
    """Return the profile of a name, of a path that ends in .toml, or the default one.

    Raises UsageError for an unknown name or a file with mistakes (all of them are listed),
    FileAccessError where the file cannot be read.
    """
    if isinstance(target, Profile):
        return target
    text = fspath(DEFAULT_TARGET if target is None else target)
    if not text.endswith(".toml"):
        if text not in profile_names():
            known = f"there are {', '.join(profile_names())}, or a .toml file of your own"
            message = f'there is no target "{text}"'
            raise misused(message, did_you_mean(text, profile_names()) or known)
        packaged = files("irdeconv.passes") / "profiles" / f"{text}.toml"
        return parse_profile(packaged.read_text("utf-8"), text)
    return _profile(read_toml(text), Path(text).stem, text)


def parse_profile(text: str, name: str, file: str | None = None) -> Profile:
    """Parse a profile; UsageError lists everything that is wrong with it."""
    try:
        table = parse_toml(text)
    except ValueError as e:
        raise misused(f"{file or name}: not TOML: {e}") from e
    return _profile(table, name, file or name)


def _profile(table: dict[str, Any], name: str, where: str) -> Profile:
    problems = Collector(most=current().reports)
    weights = table.pop("weights", {})
    if not isinstance(weights, dict):
        problems.add("E700", f"{where}: weights is a table: [weights]")
        weights = {}
    known = {"name": name, **_checked(Profile, table, where, problems)}
    by_cost = _checked(ScoreWeights, weights, f"{where}: [weights]", problems)
    problems.count_rest()
    if problems.errors:
        raise UsageError(problems.diagnostics)
    return Profile(**known, weights=ScoreWeights(**by_cost))


def _checked(
    record: type[Profile | ScoreWeights], table: dict[str, Any], where: str, problems: Collector
) -> dict[str, Any]:
    """Return the keys that fit the fields of a class."""
    kinds = {f.name: str(f.type) for f in dataclasses.fields(record) if f.name != "weights"}
    good = {}
    for key, value in table.items():
        if key not in kinds:
            if problems.is_full("E700", "error"):  # a file may have 100,000 of them
                continue
            message = f'{where}: there is no key "{key}": {", ".join(kinds)}'
            problems.add("E700", message, hint=did_you_mean(key, kinds))
        elif problem := _mismatch(kinds[key], value):
            problems.add("E700", f"{where}: {key} {problem}, not {shown(value)}")
        else:
            good[key] = value
    return good


def _mismatch(kind: str, value: Any) -> str | None:
    """Return what a value should be, or None where it fits."""
    if kind == "str":
        return None if isinstance(value, str) else "is a text"
    if kind == "bool":
        return None if isinstance(value, bool) else "is true or false"
    if kind == "float":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = number and 0 <= value <= HIGHEST_WEIGHT
        return None if fits else f"is a number from 0 to {HIGHEST_WEIGHT:g}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    fits = whole and 1 <= value <= HIGHEST_COUNT
    return None if fits else f"is a whole number from 1 to {HIGHEST_COUNT}"
