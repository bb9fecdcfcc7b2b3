"""The template of a deconvolution: the common steps of all systems, and hooks for differences.

And a system as `explain` compares it: a layer in common terms in, the window of its output out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

from irdeconv.base.errors import OpError, Problem, attribute_error, size_error, values_of
from irdeconv.base.limits import Limits, current
from irdeconv.ir.attributes import Ints, axis_lists
from irdeconv.ir.dtypes import i64
from irdeconv.ir.geometry import IntVector, Semantics, Vector, Window, WindowTerms
from irdeconv.ir.op import Builder, Op, SpecBuilder, SugarOp, attributes, ports, require_fit
from irdeconv.ir.ports import declaration, fit
from irdeconv.ir.spec import DYNAMIC, Dim, Interval, Shape, Spec, dims, ints, is_static, merge
from irdeconv.ops import core
from irdeconv.ops.basic import Convert
from irdeconv.ops.checks import check_lists


class DialectDeconvolution(SugarOp):
    """A deconvolution as a system spells it.

    A dialect declares its ports, data, filter, and `bias` or `output_shape` by these names, states
    its limits as class variables, and overrides the hooks.
    """

    deconvolution: ClassVar[bool] = True
    system: ClassVar[str] = ""  # its name in messages
    channel_rule: ClassVar[str] = "first axis must equal"  # the filter's relation to the channels
    padding_hint: ClassVar[str | None] = None  # about the limits of output_padding
    keys: ClassVar[tuple[str, str]]  # of its readings: as the runtime, as the document
    semantics: Semantics = "runtime"
    groups_name: ClassVar[str] = "groups"  # an attribute; a system without it has one group
    kernel_name: ClassVar[str] = ""  # the attribute that repeats the kernel's size
    least_size: ClassVar[int] = 1  # of an output axis
    # The attributes that decide the window, the mode first.
    window_attributes: ClassVar[tuple[str, ...]] = ("auto_pad", *core.PADS)
    dialect: ClassVar[str] = ""  # its name in test suites

    # Hooks that every dialect overrides -----------------------------------------------------

    def common_terms(self, axes: int) -> core.CommonTerms:
        """Return the attributes in common terms; absent lists may be empty."""
        raise NotImplementedError

    def window(self, t: WindowTerms) -> Window:
        """Return the window by the system's rule."""
        raise NotImplementedError

    # Hooks with defaults --------------------------------------------------------------------

    @property
    def group_count(self) -> int | None:
        """The number of groups; None if the filter has a leading axis of groups."""
        groups: int = getattr(self, self.groups_name, 1)
        return groups

    @property
    def channels_last(self) -> bool:
        """Whether data and output are (N, *I, C)."""
        return False

    @property
    def layout(self) -> str:
        """The filter's layout in messages."""
        return "[C, M/g, *K]"

    def rule(self, s: core.Setting) -> core.PadsRule:
        """Return the system's rule in words and totals."""
        return core.from_extent(s, self.window_attributes[0])

    def filter_order(self, axes: int) -> Ints:
        """Return the order of axes that makes the filter (C, M/g, *K)."""
        return tuple(range(axes + 2))

    def padding_limits(self, t: core.CommonTerms) -> Sequence[int | None]:
        """Return the first output_padding that is refused on each axis; None: there is no limit."""
        return (None,) * len(t.strides)

    def check_attributes(self, axes: int) -> None:
        """Raise OpError for attributes beyond the system's limits; ranks and lists fit."""

    def check_setting(self, s: core.Setting) -> None:
        """Raise OpError for a combination beyond the system's limits; all else fits."""

    def output_channels(self, outputs: Dim) -> Dim:
        """Return M; `outputs` is the filter's number."""
        return outputs

    def activate(self, b: Builder[Any], y: Any) -> Any:
        """Apply a fused activation."""
        return y

    def warnings(self, s: core.Setting, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
        """Warn if documents, formulas and runtimes differ about the layer."""
        return iter(())

    # Common steps ---------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The key of the system's reading that the layer follows."""
        return self.keys[0 if self.semantics == "runtime" else 1]

    @property
    def lists(self) -> dict[str, Ints]:
        """The attributes with a value per spatial axis, by name."""
        return axis_lists(self)

    def expand(self, b: Builder[Any], *inputs: Any) -> Any:
        """Resolve everything that is automatic and add core.Deconvolution, bias and activation."""
        specs = tuple(map(b.spec, inputs))
        (data, filter), (x, w) = inputs[:2], specs[:2]
        bias, output_shape = self._port("bias", inputs), self._port("output_shape", inputs)
        shape = self._port("output_shape", specs)
        axes = self.axes(x, w, shape)
        fit(self, *specs)
        self.validate(specs, axes)
        if axes is None:
            if isinstance(b, SpecBuilder):
                return Spec(x.dtype or w.dtype, None)
            name = ports(type(self)).name(1)
            raise OpError(f"the rank of data and {name} is unknown", code="E400", port=0)
        data, filter, t = self._resolve(b, data, filter, output_shape, axes)
        y = core.deconvolve(b, data, filter, t, self.window(t), self.least_size)
        wanted = self.common_terms(axes).output_shape if shape is None else dims(shape)
        if wanted is not None:
            y = b.refine(y, _with_size(b.spec(y), wanted))
        y = self.activate(b, core.add_bias(b, y, bias, axes))
        # (N, M, *O) -> (N, *O, M)
        order = (0, *range(2, axes + 2), 1)
        return core.permute(b, y, order) if self.channels_last else y

    def _resolve(
        self, b: Builder[Any], data: Any, filter: Any, output_shape: Any, axes: int
    ) -> tuple[Any, Any, WindowTerms]:
        """Return data (N, C, *I), filter (g, C/g, M/g, *K) and the terms of the window."""
        if self.channels_last:
            data = core.permute(b, data, (0, axes + 1, *range(1, axes + 1)))
        if self.group_count is not None:
            filter = core.permute(b, filter, self.filter_order(axes))
            filter = core.split_groups(b, filter, self.group_count, axes)
        t = self.common_terms(axes).filled(axes)
        wanted: Vector | None = None
        if output_shape is not None:
            spec = b.spec(output_shape)
            if spec.dtype != i64 and ints(spec) is None:
                output_shape = b.add(Convert(i64), output_shape)
            wanted = core.vector(b, output_shape)
        elif is_static(t.output_shape):
            wanted = IntVector(t.output_shape)
        terms = WindowTerms(
            size=core.sizes(b, data, 2, axes),
            kernel=core.sizes(b, filter, 3, axes),
            output_shape=wanted,
            **{name: IntVector(values) for name, values in t.lists.items()},
        )
        return data, filter, terms

    def axes(self, data: Spec, filter: Spec, output_shape: Spec | None = None) -> int | None:
        """Return the number of spatial axes from the first source that has it."""
        if data.shape is not None:
            return len(data.shape) - 2
        if filter.shape is not None:
            return len(filter.shape) - (2 if self.group_count is not None else 3)
        length = output_shape.shape[0] if output_shape and output_shape.shape else None
        if isinstance(length, int):
            return length
        return next((len(values) for values in self.lists.values() if values), None)

    def validate(self, inputs: tuple[Spec, ...], axes: int | None) -> None:
        """Raise OpError if the inputs do not fit the system's limits."""
        (data, filter), bias = inputs[:2], self._port("bias", inputs)
        if axes is not None:
            self._check_axes(axes)
            check_lists(self, axes)
            core.check_output_shape(self._port("output_shape", inputs), axes)
            self._check_padding(self.common_terms(axes).filled(axes))
            self.check_attributes(axes)
        groups, channels, outputs, kernel = self._filter_parts(filter.shape, axes)
        self.check_channels(data, filter, channels, outputs)
        outputs = self.output_channels(groups * outputs)
        if bias is not None and bias.shape and merge(bias.shape[0], outputs) is None:
            text = f"the bias has {values_of(bias.shape[0])} for {outputs} output channels"
            raise size_error(2, text)
        said = self.lists.get(self.kernel_name, ())
        core.check_kernel(self.kernel_name, said, kernel)
        s = self.setting(data, filter)
        if s is not None:
            self.check_setting(s)

    def _check_axes(self, axes: int) -> None:
        """Require as many spatial axes as the system computes, from any source; E301."""
        allowed = declaration(self.signature).inputs[0].axes
        assert allowed is not None
        low, high = allowed.counts
        if high is not None and not low <= axes <= high:
            raise OpError(f"{axes} spatial axes; {low} to {high} are possible", code="E301", port=1)

    def _check_padding(self, t: core.CommonTerms) -> None:
        """Require an output_padding below the system's limits; E304."""
        rows = enumerate(zip(t.output_padding, self.padding_limits(t), t.strides, strict=True))
        for axis, (extra, limit, stride) in rows:
            if limit is not None and extra >= limit and extra:
                text = f"output_padding is {extra} on spatial axis {axis}, of stride {stride}"
                text += f"; it must be less than {limit}"
                raise attribute_error("output_padding", text, hint=self.padding_hint)

    def check_channels(self, data: Spec, filter: Spec, channels: Dim, outputs: Dim) -> None:
        """Require the data's channels to be the filter's, in whole groups; E302, E304."""
        here = DYNAMIC if data.shape is None else data.shape[-1 if self.channels_last else 1]
        if merge(here, channels) is None:
            w = filter.shape or ()
            product = f" = {w[0]} groups x {w[1]}" if self.group_count is None else ""
            text = f"data has {here} channels, the filter wants {channels}{product}"
            hint = f"the filter's {self.channel_rule} the data's channel axis"
            raise size_error(1, text, hint=hint)
        for name, count in (("data has", here), ("the filter has", channels)):
            if isinstance(count, int) and count % self._groups:
                text = f"{name} {count} input channels, which {self._groups} groups do not divide"
                raise attribute_error(self.groups_name, text)

    @property
    def _groups(self) -> int:
        return 1 if self.group_count is None else self.group_count

    def _filter_parts(self, shape: Shape | None, axes: int | None) -> tuple[Dim, Dim, Dim, Shape]:
        """Return g, C, M/g and the kernel; unknown if the filter's rank is."""
        if axes is None:
            return DYNAMIC, DYNAMIC, DYNAMIC, ()
        if self.group_count is None:
            groups, inputs, outputs, *kernel = core.part(shape, 0, axes + 3)
            return groups, groups * inputs, outputs, tuple(kernel)
        filter = core.part(shape, 0, axes + 2)
        channels, outputs, *kernel = (filter[at] for at in self.filter_order(axes))
        return self.group_count, channels, outputs, tuple(kernel)

    def setting(self, data: Spec, filter: Spec, *rest: Spec) -> core.Setting | None:
        """Return the layer in common terms; None if not even the number of axes is known.

        The layer may be a refused one.
        """
        output_shape = self._port("output_shape", (data, filter, *rest))
        axes = self.axes(data, filter, output_shape)
        if axes is None:
            return None
        x = core.part(data.shape, 1, axes + 1)
        size, channels = (x[:-1], x[-1]) if self.channels_last else (x[1:], x[0])
        groups, _, outputs, kernel = self._filter_parts(filter.shape, axes)
        stated = self.lists.get(self.kernel_name, ())
        if len(stated) == axes:
            kernel = stated
        t = self.common_terms(axes).filled(axes)
        wanted = t.output_shape
        if output_shape is not None:
            wanted = dims(output_shape) or (DYNAMIC,) * axes
        if {len(v) for v in (*t.lists.values(), wanted or kernel)} != {axes}:
            return None
        return core.Setting(
            system=self.key,
            size=size,
            kernel=kernel,
            **t.lists,
            auto_pad=t.auto_pad,
            output_shape=wanted,
            groups=max(groups, 1) if isinstance(groups, int) else 1,
            channels=channels,
            outputs=self.output_channels(groups * outputs),
            dtype=data.dtype,
        )

    def spelled_window(self, output_shape: Shape | None) -> dict[str, str]:
        """Return the window's attributes without defaults and zeros, but always the first one.

        `output_shape` may be an input here.
        """
        text, known = self.to_attributes(), attributes(type(self))
        shown = {k: text[k] for k in self.window_attributes if k in text}
        out = {k: v for k, v in shown.items() if v != known[k].default and v.strip("0,")}
        if output_shape is not None and "output_shape" not in known:
            out["output_shape"] = core.shape_text(output_shape)
        return out or dict(list(shown.items())[:1])

    def _port(self, name: str, inputs: tuple[Any, ...]) -> Any:
        """Return the input of a port by its name, None if there is none."""
        return dict(zip(ports(type(self)).names, inputs, strict=False)).get(name)

    def begins(self, *inputs: Spec) -> Ints | None:
        """Return the output's begin in the scatter; None if sizes decide it."""
        b = SpecBuilder()
        output_shape = self._port("output_shape", inputs)
        axes = self.axes(inputs[0], inputs[1], output_shape)
        assert axes is not None
        *_, t = self._resolve(b, inputs[0], inputs[1], output_shape, axes)
        return ints(core.materialize(b, self.window(t).pads_begin))

    def expand_specs(self, *inputs: Spec) -> Spec | tuple[Spec, ...]:
        """Run `expand` on specs, once for layers that have these and the attributes alike."""
        if inputs[0].value is not None:  # it may be computed
            return super().expand_specs(*inputs)
        key = self.alike(inputs)
        return super().expand_specs(*self.bare(inputs)) if key is None else _inferred(*key)

    def remarks(self, *inputs: Spec) -> Iterator[Problem]:
        key = self.alike(inputs)
        return _warnings(self, inputs) if key is None else iter(_remarked(*key))

    def alike(self, inputs: tuple[Spec, ...]) -> tuple[Self, Limits, tuple[Spec, ...]] | None:
        """Return the key that decides sizes and warnings; None if a value decides them, too."""
        bare = self.bare(inputs)
        return None if any(s.value is not None for s in bare) else (self, current(), bare)

    def bare(self, inputs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        """Return the inputs without values, except that of `output_shape`: the only one used."""
        pairs = zip(ports(type(self)).names, inputs, strict=False)
        return tuple([s if name == "output_shape" else s.without_value() for name, s in pairs])

    def macs(self, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> int | None:
        """Return the products of the scatter: N * prod(I) * elements of the filter."""
        x = inputs[0]
        if x.shape is not None and self.channels_last:
            x = Spec(x.dtype, (x.shape[0], x.shape[-1], *x.shape[1:-1]))
        return core.scatter_macs(x, inputs[1])


@lru_cache(maxsize=1024)
def _inferred(op: DialectDeconvolution, _: Limits, inputs: tuple[Spec, ...]) -> Spec:
    """Return the output of a layer under the limits in force."""
    return op.expand(SpecBuilder(), *inputs)  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _remarked(op: DialectDeconvolution, _: Limits, inputs: tuple[Spec, ...]) -> tuple[Problem, ...]:
    """Return the warnings about a layer under the limits in force."""
    return tuple(_warnings(op, inputs))


def _warnings(op: DialectDeconvolution, inputs: tuple[Spec, ...]) -> Iterator[Problem]:
    s = op.setting(*inputs)
    return iter(()) if s is None else op.warnings(s, inputs)


class CanonicalRecorder(SpecBuilder):
    """Expands a deconvolution on specs and keeps the canonical one: operation, inputs, output."""

    def __init__(self) -> None:
        self.op: core.Deconvolution | None = None
        self.inputs: tuple[Spec, ...] = ()
        self.out: Spec | None = None

    def expand(self, op: Op, inputs: tuple[Spec, ...]) -> None:
        """Expand a dialect's deconvolution, or infer the canonical one itself."""
        if isinstance(op, SugarOp):
            op.expand(self, *inputs)
        else:
            self.add(op, *inputs)

    def add(self, op: Op, *inputs: Spec) -> Spec:
        """Infer, and keep a core.Deconvolution."""
        out = super().add(op, *inputs)
        if isinstance(op, core.Deconvolution):
            self.op, self.inputs, self.out = op, inputs, out
        return out

    def refine(self, value: Spec, spec: Spec) -> Spec:
        """Return the more precise spec; it may be the deconvolution's."""
        self.out = spec if value is self.out else self.out
        return spec


def _with_size(spec: Spec, wanted: Shape) -> Spec:
    """Put the known values of output_shape into the inferred shape: they decide the size."""
    if spec.shape is None or len(wanted) != len(spec.shape) - 2:
        return spec
    rows = zip(spec.shape[2:], wanted, strict=True)
    exact = [w if not isinstance(w, Interval) else merge(d, w) or w for d, w in rows]
    return Spec(spec.dtype, (*spec.shape[:2], *exact), spec.value)


PLAIN = (("explicit", False), ("valid", False), ("same_upper", False), ("same_lower", False))
BOTH = (*PLAIN, *((mode, True) for mode, _ in PLAIN))
ANY = Interval(-(2**63), None)  # a pad of unknown value


class Cannot(Exception):
    """A system has no attribute for a setting."""


@dataclass(frozen=True)
class Crop:
    """The output's window in the scatter: O = FULL - begin - end; a negative end adds."""

    begin: Shape  # pads at the beginning of each axis, after all rules
    end: Shape  # pads at the end of each axis
    size: Shape  # of the output


@dataclass(frozen=True)
class System(ABC):
    """A system, or one of two readings of its attributes.

    `key` is its name for programs, `title` that for people. `modes` are pairs: auto_pad, and
    whether the layer has an output_shape.
    """

    symmetric: ClassVar[bool] = False  # one pad for both sides

    key: str
    title: str
    modes: tuple[tuple[str, bool], ...]

    @abstractmethod
    def crop(self, s: core.Setting) -> Crop:
        """Return the window; OpError if the system refuses, Cannot if it has no such attribute."""

    @abstractmethod
    def spell(self, s: core.Setting) -> dict[str, str]:
        """Return the attributes that decide the window, as the system spells them."""

    def ways(self, s: core.Setting, wanted: Crop) -> Iterator[core.Setting]:
        """Yield settings that may give the wanted window here.

        If integers can express it, these are explicit pads; elements that are missing at the end
        are output_padding.
        """
        begin, end = wanted.begin, wanted.end
        if not is_static(begin) or not is_static(end):
            return
        pads = begin if self.symmetric else tuple(max(e, 0) for e in end)
        extra = tuple(p - e for p, e in zip(pads, end, strict=True))
        if min(extra) >= 0:
            yield replace(
                s, pads_begin=begin, pads_end=pads, output_padding=extra, auto_pad="explicit",
                output_shape=None,
            )  # fmt: skip


@dataclass(frozen=True)
class DialectSystem(System):
    """A system of a dialect: its operation is built and checked.

    So a verdict is the same as if such a layer were validated and run. `make` spells a setting as
    the operation and its inputs, or raises Cannot. A system that is not `listed` has no row of its
    own in the table of verdicts.
    """

    make: Callable[[core.Setting], tuple[Op, tuple[Spec, ...]]]
    listed: bool = True

    def crop(self, s: core.Setting) -> Crop:
        """Build the operation, check it and place its window."""
        crop = placed(*self.make(s))
        assert crop is not None
        return crop

    def spell(self, s: core.Setting) -> dict[str, str]:
        """Return the attributes of the operation; output_shape may be its third input."""
        op = self.make(s)[0]
        return op.spelled_window(s.output_shape) if isinstance(op, DialectDeconvolution) else {}


def placed(op: Op, inputs: tuple[Spec, ...]) -> Crop | None:
    """Return an operation's window; None if not even the rank is known."""
    require_fit(op)
    recorder = CanonicalRecorder()
    recorder.expand(op, inputs)
    if recorder.out is None or recorder.out.shape is None:
        return None
    size = recorder.out.shape[2:]
    unknown = (ANY,) * len(size)
    begin, end = (unknown if p.value is None else dims(p) or unknown for p in recorder.inputs[2:4])
    return Crop(begin, end, size)
