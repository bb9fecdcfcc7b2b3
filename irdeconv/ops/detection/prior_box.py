"""PriorBox and PriorBoxClustered."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from irdeconv.attributes import Floats
from irdeconv.dtypes import f32
from irdeconv.errors import OpError, Problem
from irdeconv.kernels.detection import prior_boxes
from irdeconv.limits import current, raise_hint
from irdeconv.op import Op, attribute, op
from irdeconv.ops.checks import UNKNOWN, elements, want_rank
from irdeconv.spec import Array, Dim, Interval, Spec, non_negative
from irdeconv.traits import SCALE

_LARGEST = float(np.finfo(np.float32).max)


def _sizes(spec: Spec, port: int, name: str) -> tuple[Dim, Dim]:
    """Return height and width, a vector of two; E301, E302, E303, E305."""
    want_rank(spec.shape, 1, 1, port, name)
    values = elements(spec, port, name) or (UNKNOWN, UNKNOWN)
    if len(values) != 2:
        text = f"{name} has {len(values)} values; it must have 2, height and width"
        raise OpError(text, code="E302", port=port)
    for value in values:
        if not isinstance(value, Interval) and value < 0:
            raise OpError(f"{name} has {value}; sizes are not negative", code="E305", port=port)
    return non_negative(values[0]), non_negative(values[1])


def _variances(values: Floats) -> Iterator[Problem]:
    if len(values) not in (0, 1, 4):
        text = f"variance has {len(values)} values; it must have 1 or 4, or none for 0.1"
        yield Problem("E210", text, attribute="variance")
    if any(v < 0 for v in values):
        text = f"variance is {list(values)}; it must not be negative"
        yield Problem("E210", text, attribute="variance")


class _Priors(Op):
    """Base: a grid's size and an image's size -> (2, 4 * H * W * boxes of a cell)."""

    rounding = SCALE
    variance: Floats

    def per_cell(self) -> int:
        """Return the number of boxes of a cell."""
        raise NotImplementedError

    def infer(self, output_size: Spec, image_size: Spec) -> Spec:
        height, width = _sizes(output_size, 0, "output_size")
        _sizes(image_size, 1, "image_size")
        return Spec(f32, (2, 4 * self.per_cell() * height * width))

    def evaluate(self, output_size: Array, image_size: Array) -> Array:
        height, width = map(int, output_size)
        image = int(image_size[0]), int(image_size[1])
        count = 4 * height * width * self.per_cell()
        if not count:
            return np.zeros((2, 0), np.float32)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            boxes = self.place(height, width, image)
        return prior_boxes.with_variances(boxes, count, self.variance)

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        """Return the boxes (height, width, B, 4) as left, top, right, bottom."""
        raise NotImplementedError


@dataclass(frozen=True)
class _PriorBox(_Priors):
    """Base of the two versions."""

    min_size: Floats = ()
    max_size: Floats = ()
    aspect_ratio: Floats = ()
    density: Floats = ()
    fixed_ratio: Floats = ()
    fixed_size: Floats = ()
    clip: bool = False
    flip: bool = False
    step: float = 0.0
    offset: float = attribute(0.0, documented=True)
    variance: Floats = ()
    scale_all_sizes: bool = True
    min_max_aspect_ratios_order: bool = attribute(True, internal=True)

    def check(self) -> Iterator[Problem]:
        yield from _variances(self.variance)
        wrong = False
        for name in ("min_size", "max_size", "aspect_ratio", "density", "fixed_ratio"):
            values: Floats = getattr(self, name)
            if any(not 0 < v < math.inf for v in values):
                wrong = True
                text = f"{name} is {list(values)}; all of it must be positive and finite"
                yield Problem("E210", text, attribute=name)
        if any(not abs(v) <= _LARGEST for v in self.fixed_size):
            wrong = True
            text = f"fixed_size is {list(self.fixed_size)}; all of it must be finite in f32"
            yield Problem("E210", text, attribute="fixed_size")
        if not wrong:
            yield from self._check_count()

    def _check_count(self) -> Iterator[Problem]:
        count = self.per_cell()
        limit = current().boxes
        if count > limit:
            text = f"the attributes describe {count} boxes of a cell; the limit is {limit}"
            yield Problem("E210", text, hint=raise_hint("boxes"))
            return
        made = len(self._candidates().boxes(1))
        if made < count or made > 2 * count:
            text = f"the attributes describe {made} boxes of a cell, the shape rule counts {count}"
            hint = (
                "fixed_size needs a density each, max_size a min_size, and as many fixed_ratio as "
                "there are aspect ratios with 1; fixed_size and min_size exclude each other"
            )
            yield Problem("E210", text, hint=hint)

    def _candidates(self) -> prior_boxes.Candidates:
        return prior_boxes.Candidates(
            min_size=self.min_size,
            max_size=self.max_size,
            aspect_ratio=self.aspect_ratio,
            density=self.density,
            fixed_ratio=self.fixed_ratio,
            fixed_size=self.fixed_size,
            flip=self.flip,
            scale_all_sizes=self.scale_all_sizes,
            maximum_first=self.min_max_aspect_ratios_order,
        )

    def per_cell(self) -> int:
        return self._candidates().counted()

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        boxes = self._candidates().boxes(image[0])
        x, y = self._centres(height, width, image)
        out = prior_boxes.around(x, y, boxes, image)
        return np.clip(out, 0, 1) if self.clip else out

    def _centres(self, height: int, width: int, image: tuple[int, int]) -> tuple[Array, Array]:
        step, tall = np.float32(self.step), np.float32(image[0])
        if not self.scale_all_sizes:
            step = tall / np.float32(height) if step == -1 else step * tall
        if step != 0:
            x, y, offset = step, step, self.offset
        else:
            x, y, offset = np.float32(image[1]) / np.float32(width), tall / np.float32(height), 0.5
        return prior_boxes.grid(width, x, offset), prior_boxes.grid(height, y, offset)


@op("PriorBox", until=7)
class PriorBox1(_PriorBox):
    """Boxes around each cell of a grid: sizes [H, W] of grid and image -> (2, 4 * H * W * B), f32.

    The first row has the boxes as left, top, right, bottom in fractions of the image, the second
    their variances. A cell has, for each `fixed_size`, a square of `density` by `density` boxes of
    each `fixed_ratio` (or of each aspect ratio), then for each `min_size` a square, a square of
    side sqrt(min * max), and a box of each aspect ratio, with `flip` of its reciprocal too. Centres
    are (offset + i) * step; a step of 0 divides the image evenly, from the middle of the first
    cell. With `scale_all_sizes` off `min_size` and `step` are fractions of the image's height, -1
    is a step of one cell, and only the last `min_size` has aspect ratios, those of the first.
    Where attributes describe more boxes than the rule of the shape counts, the runtime writes them
    one after the other until the row is full; so does this. Where the runtime folds
    a constant, the boxes of an odd `fixed_size` are half a pixel further right and down.
    [detection/PriorBox-1]
    """


@op("PriorBox", since=8)
class PriorBox(_PriorBox):
    """Boxes around each cell of a grid, as PriorBox-1: sizes [H, W] of grid and image -> (2, N).

    With `min_max_aspect_ratios_order` off the square up to `max_size` comes after the aspect
    ratios; OpenVINO's CPU plugin knows that only where both inputs are constant.
    [detection/PriorBox-8]
    """

    min_max_aspect_ratios_order: bool = True


@op("PriorBoxClustered")
class PriorBoxClustered(_Priors):
    """Boxes of given sides around each cell of a grid: sizes [H, W] twice -> (2, 4 * H * W * B).

    As PriorBox, f32: centres (offset + i) * step, `step_w` and `step_h` before `step`; where all
    are 0 they divide the image evenly.  [detection/PriorBoxClustered-1]
    """

    width: Floats = attribute((), documented=True)
    height: Floats = attribute((), documented=True)
    clip: bool = True
    step: float = 0.0
    step_w: float = 0.0
    step_h: float = 0.0
    offset: float = attribute(0.0, documented=True)
    variance: Floats = ()

    def check(self) -> Iterator[Problem]:
        yield from _variances(self.variance)
        if len(self.width) != len(self.height):
            text = f"there are {len(self.width)} widths and {len(self.height)} heights"
            yield Problem("E210", text, attribute="height")

    def per_cell(self) -> int:
        return len(self.width)

    def place(self, height: int, width: int, image: tuple[int, int]) -> Array:
        across = np.float32(self.step_w or self.step)
        down = np.float32(self.step_h or self.step)
        if across == 0 and down == 0:
            across = np.float32(image[1]) / np.float32(width)
            down = np.float32(image[0]) / np.float32(height)
        x = prior_boxes.grid(width, across, self.offset)
        y = prior_boxes.grid(height, down, self.offset)
        sides = np.stack([np.array(self.width, np.float32), np.array(self.height, np.float32)], -1)
        out = prior_boxes.clustered(x, y, sides, image)
        return np.clip(out, 0, 1) if self.clip else out
