from dataclasses import dataclass
from typing import Any
import numpy as np


@dataclass
class Bound:
    call: Any
    view: bool = False
    name: str = ""
    scratch: int = 0


def bind(op, inputs, outputs):
    if op.type in ("Reshape", "Squeeze", "Unsqueeze"):
        shape = outputs[0].shape
        return Bound(lambda x, *_: x.reshape(shape), True)
    return None
