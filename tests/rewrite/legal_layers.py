"""Small layers and targets for the rules that keep a lowering within limits of a device.

A subject is a model of one layer in a file format: it is lowered for a target, and what was written
is checked, run and proved apart from the search.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

import irdeconv as ird
from irdeconv.formats.onnx_types import check_nodes
from irdeconv.ir.graph import Graph, Value
from irdeconv.ops.convolution import Convolution, GroupConvolution
from irdeconv.ops.elementwise import Add
from irdeconv.rewrite.emit import RuleCall
from irdeconv.rewrite.standardize import standardize
from irdeconv.rewrite.targets import Target, check_graph, parse_target
from support import oracle
from support.dialect_layers import ONEDNN, TENSORRT, DialectLayer
from support.dialect_layers import build as build_dialect
from support.dialect_layers import data as dialect_data
from support.dialect_layers import expected as dialect_expected
from support.layers import Layer, begun, constant, expected, numbers, result
from support.onnx_models import info, model, run_onnx

Ints = tuple[int, ...]
FREE = tuple(
    "Convolution GroupConvolution Reshape Transpose Pad Slice Concat Add DepthToSpace".split()
)


def target_of(
    conditions: dict[str, Sequence[str]] | None = None,
    *,
    without: Sequence[str] = (),
    listed: Sequence[str] = FREE,
    head: str = "",
    name: str = "tiny",
) -> Target:
    """A target that lists some operations, with conditions for some of them."""
    table: dict[str, Sequence[str]] = {n: [] for n in listed if n not in without}
    table |= conditions or {}
    rows = [f"{n} = {json.dumps(list(texts))}" for n, texts in table.items()]
    return parse_target("\n".join([head, "[operations]", *rows]), name)


def text_of(target: Target) -> str:
    """The file of a target."""
    head = [] if target.max_rank is None else [f"max_rank = {target.max_rank}"]
    rows = [
        f"{n} = {json.dumps([c.text for c in conditions])}"
        for n, conditions in (target.operations or {}).items()
    ]
    return "\n".join([*head, "[operations]", *rows, ""])


@dataclass
class Subject:
    """A model of one layer: numbers to feed, the result by the definition.

    `model` is a Graph or a ModelProto.
    """

    model: Any
    feeds: dict[str, Any]
    want: Any
    note: str

    @property
    def is_onnx(self) -> bool:
        return not isinstance(self.model, Graph)

    def lower(self, target: Target, form: str | None = None, **options: Any) -> Written:
        """Lower the model; what comes out knows how it was made."""
        start = time.process_time()
        if self.is_onnx:
            data = self.model.SerializeToString()
            low = ird.lower_onnx(data, form=form, target=target, **options)
            made: Any = low.proto
        else:
            low = ird.lower(self.model, form, target, **options)
            made = low.graph
        return Written(self, target, made, low.report, time.process_time() - start)


@dataclass
class Written:
    """What a lowering wrote."""

    subject: Subject
    target: Target
    model: Any
    report: Any
    seconds: float

    @property
    def rules(self) -> list[str]:
        """The rules that were applied to deconvolutions, in their order."""
        rows = [c for layer in self.report for c in layer.costs if c.form == layer.form]
        return [d.rule.__name__ for c in rows for d in c.decisions if isinstance(d, RuleCall)]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The types of the written nodes."""
        if self.subject.is_onnx:
            return tuple(n.op_type for n in self.model.graph.node)
        made = standardize(self.model)
        skipped = ("Const", "Result", "Parameter")
        return tuple(n.type for n in made.topological() if n.type not in skipped)

    def violations(self) -> list[str]:
        """The conditions that layers violate, by the check that shares nothing with the search."""
        if self.subject.is_onnx:
            return list(map(str, check_nodes(self.model, self.target)))
        return list(map(str, check_graph(standardize(self.model), self.target)))

    def run(self) -> Any:
        """The output by irdeconv's engine."""
        graph = ird.convert(self.model.SerializeToString()) if self.subject.is_onnx else self.model
        (out,) = ird.run(graph, self.subject.feeds, form=None, fuse=False).values()
        return out

    def run_live(self) -> Any:
        """The output by OpenVINO or ONNX Runtime."""
        if self.subject.is_onnx:
            return run_onnx(self.model, self.subject.feeds)[0]
        import openvino as ov

        from irdeconv.formats.xml_writer import ir_bytes

        text, weights = ir_bytes(standardize(self.model))
        core = ov.Core()
        read = core.read_model(text, weights)
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        return core.compile_model(read, "CPU", config)(list(self.subject.feeds.values()))[0]

    def is_proved(self) -> bool:
        """Whether everything is proved for every size."""
        verdict = self.proof()
        kept = not verdict.layers and not verdict.problems
        return kept or verdict.passed

    def proof(self) -> Any:
        """The verdict of the proof."""
        if self.subject.is_onnx:
            first, second = (m.SerializeToString() for m in (self.subject.model, self.model))
            return ird.check_onnx(first, second)
        return ird.check_certificate(self.subject.model, self.model)


def ir_subject(
    rng: np.random.Generator, layer: Layer, *, bias: bool = False, free: Ints = ()
) -> Subject:
    """An IR of a deconvolution, with a bias behind it or not; sizes of the axes `free` are open."""
    x, w = numbers(rng, layer.data_shape, "f4"), numbers(rng, layer.filter_shape, "f4")
    y, row = _biased(rng, expected(layer, x, w), bias)
    note = f"IR {layer} bias={bias} free={free}"
    return Subject(_ir_model(layer.op, "deconv", x, w, row, free), {"x": x}, y, note)


def onnx_subject(
    rng: np.random.Generator, layer: Layer, *, bias: bool = False, free: Ints = ()
) -> Subject:
    """An ONNX model of the same."""
    x, w = numbers(rng, layer.data_shape, "f4"), numbers(rng, layer.filter_shape, "f4")
    y, row = _biased(rng, expected(layer, x, w), bias)
    made = deconvolution_model(layer, x, w, row, free)
    return Subject(made, {"x": x}, y, f"ONNX {layer} {bias} {free}")


def deconvolution_model(layer: Layer, x: Any, w: Any, row: Any, free: Ints = ()) -> Any:
    """A ConvTranspose alone, with its bias, if any, as an input of its own."""
    flat = w.reshape(-1, *w.shape[1 if layer.groups is None else 2 :])
    extra = list(layer.output_padding)
    return _onnx_model("ConvTranspose", layer, x, flat, row, free, output_padding=extra)


def _biased(rng: np.random.Generator, y: Any, bias: bool) -> tuple[Any, Any]:
    """Return the output with a bias added, and the bias for each channel, or None."""
    row = numbers(rng, (y.shape[1],), "f4") if bias else None
    return (y if row is None else y + _behind(row, y.ndim)), row


def _behind(row: Any, rank: int) -> Any:
    return row.reshape(1, -1, *(1,) * (rank - 2))


def _ir_model(op: Any, name: str, x: Any, w: Any, row: Any, free: Ints) -> Graph:
    g, data = begun([None if a in free else n for a, n in enumerate(x.shape)], x.dtype)
    value = Value(g.add(op, [data, constant(g, w, "w")], name=name).id)
    if row is not None:
        shaped = constant(g, _behind(row, x.ndim), "b")
        value = Value(g.add(Add(), [value, shaped], name="biased").id)
    result(g, value)
    return ird.infer(g)


def _onnx_model(
    kind: str, layer: Layer | Conv, x: Any, w: Any, row: Any, free: Ints, **attributes: Any
) -> Any:
    tensors = {"w": w} | ({} if row is None else {"b": row})
    node = helper.make_node(
        kind,
        ["x", *tensors],
        ["y"],
        "conv" if kind == "Conv" else "deconv",
        group=layer.groups or 1,
        strides=list(layer.strides),
        dilations=list(layer.dilations),
        pads=[*layer.pads_begin, *layer.pads_end],
        **attributes,
    )
    dims = [f"d{a}" if a in free else n for a, n in enumerate(x.shape)]
    return model([node], [info("x", dims)], [info("y", [None] * x.ndim)], tensors)


def dialect_subject(
    rng: np.random.Generator, layer: Layer, version: str, *, bias: bool, transposes: bool = True
) -> Subject:
    """The same as a layer of oneDNN or TensorRT; its channels may be last if it may transpose."""
    groups = layer.groups or 1
    names = {
        ONEDNN: {
            "strides": layer.strides,
            "dilations": layer.dilations,
            "groups": groups,
            "pads_begin": layer.pads_begin,
            "pads_end": layer.pads_end,
            "output_padding": layer.output_padding,
            "data_format": str(rng.choice(["NXC", "NCX"])) if transposes else "NCX",
            "weights_format": str(rng.choice(["XIO", "OIX", "IOX"])),
        },
        TENSORRT: {
            "kernel_size": layer.kernel,
            "num_output_maps": layer.m * groups,
            "stride": layer.strides,
            "dilation": layer.dilations,
            "num_groups": groups,
            "pre_padding": layer.pads_begin,
            "post_padding": layer.pads_end,
        },
    }
    made = DialectLayer(
        version, layer.batch, layer.size, groups, layer.c, layer.m, layer.kernel, names[version],
        bias=0 if bias else None,
    )  # fmt: skip
    arrays = dialect_data(made, rng, np.float32)
    g, feeds = build_dialect(made, arrays)
    return Subject(ird.infer(g), feeds, dialect_expected(made, *arrays), f"{version} {made}")


@dataclass(frozen=True)
class Conv:
    """An ordinary convolution: data [batch, g*c, *size], filter [g, m, c, *kernel]."""

    batch: int
    size: Ints
    groups: int
    c: int
    m: int
    kernel: Ints
    strides: Ints
    dilations: Ints
    pads_begin: Ints
    pads_end: Ints

    @property
    def axes(self) -> int:
        return len(self.size)

    def arrays(self, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        x = numbers(rng, (self.batch, self.groups * self.c, *self.size), "f4")
        w = numbers(rng, (self.groups, self.m, self.c, *self.kernel), "f4")
        y = oracle.convolution(
            x, w, self.strides, self.dilations, self.pads_begin, self.pads_end
        ).astype(x.dtype)
        return x, w, y


def convolution_subject(
    rng: np.random.Generator, conv: Conv, *, bias: bool, onnx: bool, free: Ints = ()
) -> Subject:
    """A model of a convolution."""
    x, w, y = conv.arrays(rng)
    y, row = _biased(rng, y, bias)
    note = f"{'ONNX' if onnx else 'IR'} {conv} bias={bias} free={free}"
    if onnx:
        made = _onnx_model("Conv", conv, x, w.reshape(-1, *w.shape[2:]), row, free)
        return Subject(made, {"x": x}, y, note)
    lists = (conv.strides, conv.pads_begin, conv.pads_end, conv.dilations)
    op, filter = (GroupConvolution, w) if conv.groups > 1 else (Convolution, w[0])
    return Subject(_ir_model(op(*lists), "conv", x, filter, row, free), {"x": x}, y, note)


@dataclass(frozen=True)
class Shapes:
    """What random layers look like; each has an inclusive range."""

    axes: Ints = (1, 2, 3)
    grouped: bool | None = None  # None: either
    kernel: Ints = (1, 4)
    stride: Ints = (1, 3)
    dilation: Ints = (1, 2)
    pads: Ints = (0, 2)
    output_padding: bool = True
    c: Ints = (1, 3)
    m: Ints = (1, 3)
    products: int = 4000
    equal_strides: bool = False
    more: Callable[[Any], bool] = field(default=lambda layer: True)


def random_deconvolution(rng: np.random.Generator, s: Shapes = Shapes()) -> Layer:
    """A layer whose sizes, kernels, strides and pads differ by axis, and C/g from M/g."""
    while True:
        axes = int(rng.choice(s.axes))

        def per_axis(low: int, high: int, axes: int = axes) -> Ints:
            return tuple(int(v) for v in rng.integers(low, high + 1, axes))

        strides = per_axis(*s.stride)
        strides = (strides[0],) * axes if s.equal_strides else strides
        grouped = bool(rng.random() < 0.4) if s.grouped is None else s.grouped
        size = tuple(map(int, rng.choice(np.arange(2, (12, 7, 5)[axes - 1]), axes, replace=False)))
        extra = tuple(int(rng.integers(0, n)) for n in strides)
        layer = Layer(
            batch=int(rng.integers(1, 3)),
            size=size,
            groups=int(rng.integers(2, 4)) if grouped else None,
            c=int(rng.integers(s.c[0], s.c[1] + 1)),
            m=int(rng.integers(s.m[0], s.m[1] + 1)),
            kernel=per_axis(*s.kernel),
            strides=strides,
            dilations=per_axis(*s.dilation),
            pads_begin=per_axis(*s.pads),
            pads_end=per_axis(*s.pads),
            output_padding=extra if s.output_padding and rng.random() < 0.5 else (0,) * axes,
        )
        layer = replace(layer, m=layer.m + (layer.m == layer.c))
        if min(layer.output_size) > 0 and layer.products <= s.products and s.more(layer):
            return layer


def random_convolution(rng: np.random.Generator, s: Shapes = Shapes()) -> Conv:
    """A convolution of the same kind."""
    while True:
        layer = random_deconvolution(rng, s)
        big = tuple(n + int(rng.integers(0, 6)) for n in layer.size)
        conv = Conv(
            layer.batch, big, layer.groups or 1, layer.c, layer.m, layer.kernel, layer.strides,
            layer.dilations, layer.pads_begin, layer.pads_end,
        )  # fmt: skip
        rows = zip(big, conv.kernel, conv.dilations, conv.pads_begin, conv.pads_end, strict=True)
        fits = all(n + p + q > d * (k - 1) for n, k, d, p, q in rows)
        if fits and len({*big}) == len(big):
            return conv


# The rules of legal_rules.toml: targets that each force one rule, and layers for them.


BOTH = ("Convolution", "GroupConvolution")
SPARE = ("Interpolate", "Multiply", *BOTH, "Add", "Slice")
NATIVE = ("ConvolutionBackpropData", "GroupConvolutionBackpropData", "Slice", "Reshape")
KEYS = set("target shapes forms uses nodes absent convolution open chained".split())
LISTS = {
    "SIZES": (*FREE, "ShapeOf", "Gather", "Broadcast", "Multiply"),  # what open sizes may take
    "SPARE": SPARE,
    "NATIVE": NATIVE,
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One target and what it forces.

    With `chained` a convolution may read another one's result, which the second checker does not
    follow.
    """

    name: str
    target: Target
    shapes: Shapes
    form: str | None
    uses: Sequence[str]
    nodes: Sequence[str]
    absent: Sequence[str]
    convolution: bool
    open: Ints
    chained: bool

    def __str__(self) -> str:
        return self.name


def both(*conditions: str) -> dict[str, Sequence[str]]:
    return dict.fromkeys(BOTH, conditions)


def _target(
    *, listed: str = "", without: str = "", head: str = "", native: Any = None, **conditions: Any
) -> Target:
    if "both" in conditions:
        conditions |= both(*conditions.pop("both"))
    if native is not None:
        listed = listed or "NATIVE"
        conditions |= {n: native for n in NATIVE[:2] if n not in without.split()}
    names = [n for name in listed.split() for n in LISTS.get(name, (name,))]
    return target_of(conditions, listed=names or FREE, without=without.split(), head=head)


def _shapes(given: dict[str, Any]) -> Shapes:
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    if "more" in given:
        lists["more"] = lambda layer: eval(given["more"], {}, vars(layer))
    return Shapes(**lists)


def _rules(name: str, row: dict[str, Any]) -> Iterator[Rule]:
    """Yield a rule for each form."""
    assert row.keys() <= KEYS, name
    words = {key: row.get(key, "").split() for key in ("uses", "nodes", "absent")}
    usual = "any" if "native" in row["target"] else "zero-insertion"
    for form in row.get("forms", usual).split():
        yield Rule(
            name=name if form in ("any", "zero-insertion") else f"{form}: {name}",
            target=_target(**row["target"]),
            shapes=_shapes(row.get("shapes", {})),
            form=None if form == "any" else form,
            convolution=row.get("convolution", False),
            open=tuple(row.get("open", (0,))),
            chained=row.get("chained", False),
            **words,
        )


TABLE = tomllib.loads(Path(__file__).with_name("legal_rules.toml").read_text("utf-8"))
EVERY = [rule for name, row in TABLE.items() for rule in _rules(name, row)]
assert len({r.name for r in EVERY}) == len(EVERY)
