"""The drawn anatomy of explained deconvolutions: which axes are drawn, and what stands above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from irdeconv.drawing.anatomy import AxisAnatomy, shortened
from irdeconv.drawing.anatomy_overlap import Overlap, OverlapAxis
from irdeconv.drawing.anatomy_svg import AxisPicture, LayerPicture, svg
from irdeconv.explanation.layer import FORMULA, AxisEquation, LayerExplanation
from irdeconv.spec import is_static

OPEN = "The kernel or the pads are not known, or are too large, so no axis is drawn."
LARGEST = 1 << 30  # number of an axis: Python counts positions up to 2^63 only


def anatomy_svg(layers: Sequence[LayerExplanation]) -> str:
    """Return the pictures of some layers as one SVG."""
    return svg([layer_picture(e) for e in layers])


def layer_picture(e: LayerExplanation) -> LayerPicture:
    """Return what is drawn of a layer; axes that are drawn alike are drawn once."""
    alike: dict[AxisAnatomy, list[AxisEquation]] = {}
    numbers = anatomies(e)
    for axis, equation in zip(numbers, e.axes, strict=False):
        size = equation.size if isinstance(equation.size, int) else None
        alike.setdefault(shortened(axis, size), []).append(equation)
    notes = [f"{e.type} ({e.version}), {e.system}", f"{' x '.join(e.inputs[:2])} -> {e.output}"]
    if e.problem is not None:
        notes.append(f"rejected [{e.problem.code}]: {e.problem.message}")
    elif not numbers:
        notes.append(OPEN)
    return LayerPicture(
        name=e.name,
        notes=tuple(notes),
        axes=tuple(_axis(drawn, same) for drawn, same in alike.items()),
        overlap=overlap(e) if numbers else None,
    )


def anatomies(e: LayerExplanation) -> list[AxisAnatomy]:
    """Return the numbers of every axis, an open size as 0.

    There are none where pads or kernel are open, or a number is too large.
    """
    s, crop = e.setting, e.crop
    if s is None or crop is None or not is_static(crop.begin) or not is_static(s.kernel):
        return []
    if not is_static(crop.end) or min(s.kernel) < 1:
        return []
    found = [
        AxisAnatomy(
            size=size if isinstance(size, int) else 0,
            kernel=s.kernel[n],
            stride=s.strides[n],
            dilation=s.dilations[n],
            begin=crop.begin[n],
            end=crop.end[n],
            extra=s.output_padding[n],
        )
        for n, size in enumerate(s.size)
    ]
    small = all(abs(number) < LARGEST for axis in found for number in astuple(axis))
    return found if small else []


def overlap(e: LayerExplanation) -> Overlap:
    """Return the overlap map of a layer whose axes are known."""
    return Overlap(
        tuple(
            OverlapAxis(kernel=a.kernel, stride=a.stride, dilation=a.dilation, begin=a.begin)
            for a in anatomies(e)
        )
    )


def _axis(drawn: AxisAnatomy, same: Sequence[AxisEquation]) -> AxisPicture:
    several = len(same) > 1
    listed = " and ".join(str(a.index) for a in same)
    texts: dict[str, list[str]] = {}
    for a in same:
        first, second = a.equation
        texts.setdefault(f"{FORMULA} = {first} = {second}", []).append(str(a.index))
    notes = [
        f"axis {' and '.join(axes)}: {text}" if len(texts) > 1 else text
        for text, axes in texts.items()
    ]
    sizes = {str(a.size): None for a in same if a.size != drawn.size}
    if sizes:
        notes.append(f"drawn with {drawn.size} of {' and '.join(sizes)} elements")
    if len(drawn.shown) < len(drawn.everything):
        wide, part = drawn.everything, drawn.shown
        notes.append(f"of {len(wide)} positions {len(part)} are drawn, from {part.start} on")
    if not drawn.size:
        notes.append("there are no inputs, so every output is 0")
    if not drawn.output:
        notes.append("there is no output")
    title = f"Axes {listed}, drawn once" if several else f"Axis {listed}"
    return AxisPicture(title=title, notes=tuple(notes), axis=drawn)
