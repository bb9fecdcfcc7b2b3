"""Random samples of operations whose inputs have a meaning: axes, splits, indices, windows."""

from support.live_operations.generators import (
    boxes,
    cells,
    detectors,
    elements,
    moves,
    places,
    sequences,
    windows,
)
from support.live_operations.generators.tools import Generator

GENERATORS: dict[str, Generator] = {
    name: make
    for module in (elements, moves, places, windows, cells, detectors, boxes, sequences)
    for name, make in module.GENERATORS.items()
}
