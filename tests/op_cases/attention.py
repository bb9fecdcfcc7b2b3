"""ScaledDotProductAttention, query by query."""

import itertools
import math
from typing import Any

import numpy as np

from op_cases import Case, Tensor, boolean, case, f16, f32, f64, unordered

B, H, L, S, E, V = 2, 3, 5, 6, 4, 7


def numbers(*shape: int) -> Any:
    return unordered(shape) / 4


QUERY, KEY, VALUE = numbers(B, H, L, E), numbers(B, H, S, E) * 0.75, numbers(B, H, S, V)
MASK = numbers(B, 1, L, S)
SEEN = (np.arange(L * S) * 5 % 7 > 2).reshape(L, S)


def attend(
    arrays: tuple[Any, Any, Any],
    mask: Any = None,
    scale: Any = None,
    sink: Any = None,
    *,
    causal: bool,
) -> Any:
    """Compute every row of every matrix by itself."""
    query, key, value = arrays
    batch = np.broadcast_shapes(
        *(a.shape[:-2] for a in (*arrays, *(() if mask is None else (mask,))))
    )
    rows, keys = query.shape[-2], key.shape[-2]
    q, k, v = (np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays)
    shown = None if mask is None else np.broadcast_to(mask, (*batch, rows, keys))
    sinks = None if sink is None else np.broadcast_to(sink, (*batch, rows, 1))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    out = np.zeros((*batch, rows, value.shape[-1]))
    for at in itertools.product(*map(range, (*batch, rows))):
        scores = [float(q[at] @ k[(*at[:-1], j)]) * factor for j in range(keys)]
        if causal:
            scores = [s if j <= at[-1] else -math.inf for j, s in enumerate(scores)]
        elif shown is not None and shown.dtype == bool:
            scores = [s if shown[(*at, j)] else -math.inf for j, s in enumerate(scores)]
        elif shown is not None:
            scores = [s + shown[(*at, j)] for j, s in enumerate(scores)]
        top = max(scores) if sinks is None else max(*scores, sinks[at][0])
        if top == -math.inf:
            out[at] = math.nan
            continue
        powers = [math.exp(s - top) for s in scores]
        total = sum(powers) + (0 if sinks is None else math.exp(sinks[at][0] - top))
        out[at] = sum(p / total * v[(*at[:-1], j)] for j, p in enumerate(powers))
    return out


def row(
    mask: Any = None,
    scale: Any = None,
    sink: Any = None,
    *,
    causal: bool = False,
    arrays: tuple[Any, Any, Any] = (QUERY, KEY, VALUE),
    kind: Any = f32,
    shown: Tensor | None = None,
    **more: Any,
) -> Case:
    inputs: list[Tensor] = [kind(a) for a in arrays]
    given = mask is not None or shown is not None or scale is not None or sink is not None
    if given:
        plain = boolean if mask is not None and mask.dtype == bool else kind
        inputs.append(shown or (kind(0) if mask is None else plain(mask)))
    if scale is not None or sink is not None:
        inputs.append(kind(1 / math.sqrt(E) if scale is None else scale))
    if sink is not None:
        inputs.append(kind(sink))
    values = None if scale is None else float(np.asarray(scale).item())
    wanted = kind(attend(arrays, mask, values, sink, causal=causal))
    text = f'causal="{str(causal).lower()}"'
    loose = {"tolerance": 2.0**-19 if kind is not f16 else 2.0**-9} | more
    return case("ScaledDotProductAttention-13", text, inputs, wanted, **loose)


LATE = SEEN.copy()
LATE[2] = False
CASES = [
    row(),
    row(causal=True),
    row(causal=True, arrays=(KEY, QUERY, numbers(B, H, L, V))),
    row(MASK),
    row(numbers(L, S)),
    row(numbers(1, S), 0.25),
    row(numbers(B, H, 1, S), np.array([0.5])),
    row(SEEN | (np.arange(S) == 1)),
    row(LATE),  # query 2 sees nothing
    row(MASK, 0.75, causal=True),  # the mask is ignored
    row(shown=f32(0)),
    row(scale=0.3),
    row(sink=numbers(1, H, 1, 1)),
    row(MASK, 0.5, numbers(1, H, 1, 1) + 2),
    row(arrays=(QUERY[0], KEY[0], VALUE[0])),
    row(numbers(L, S), arrays=(QUERY[0], KEY[0], VALUE[0])),
    row(arrays=(QUERY, KEY[:, :1], VALUE[:, :1])),
    row(arrays=(QUERY[:1], KEY, VALUE)),
    row(arrays=(QUERY[None], KEY[None], VALUE[None])),
    row(MASK, kind=f64),
    row(MASK, kind=f16),
]
