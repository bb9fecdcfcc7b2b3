"""Random samples of operations whose inputs have a meaning: axes, splits, indices, windows."""

from support.live_operations.generators import cells, detectors, elements, moves, places, windows
from support.live_operations.generators.tools import Generator

GENERATORS: dict[str, Generator] = {
    name: make
    for module in (elements, moves, places, windows, cells, detectors)
    for name, make in module.GENERATORS.items()
}
