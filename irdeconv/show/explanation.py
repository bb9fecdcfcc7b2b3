"""The explanation of one deconvolution, and of all in a graph, as text, JSON and pictures.

An explanation has terms per axis, the rule, verdicts of other systems, and solutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Annotated

import numpy as np

from irdeconv.base.errors import OpError, Problem, count, did_you_mean, misused
from irdeconv.base.json_form import Record
from irdeconv.base.markup import html_text, plain
from irdeconv.base.markup import line as one_line
from irdeconv.base.tables import printable, table
from irdeconv.ir.attributes import Ints
from irdeconv.ir.geometry import size_hint
from irdeconv.ir.graph import Graph, Node
from irdeconv.ir.op import Op, infer_op
from irdeconv.ir.spec import Dim, Shape, Spec, is_static
from irdeconv.ops.core import PadsRule, Setting, shape_text
from irdeconv.ops.dialect_template import Crop, DialectDeconvolution, placed
from irdeconv.rewrite.infer_specs import infer_specs
from irdeconv.rewrite.runtime_faults import faults_of_quantized
from irdeconv.show.anatomy import AxisAnatomy, Overlap, picture, shortened
from irdeconv.show.anatomy_svg import AxisPicture, LayerPicture, svg
from irdeconv.show.systems import Solutions, Verdict, find, rule, setting, solve, verdicts

NAMED_SYSTEMS = 3  # systems that are named in a verdict
FORMULA = "O = S(I-1) + D(K-1)+1 - pb - pe + op"


_AXIS_KEYS = """axis=index stride dilation output_padding input=size kernel full pad_begin pad_end
output equation=text"""


class AxisEquation(Record, keys=_AXIS_KEYS):
    """The terms of O = S(I-1) + D(K-1)+1 - pb - pe + op on one axis."""

    index: int  # from 0
    size: Dim  # elements of the input
    kernel: Dim  # taps
    stride: int  # outputs from one input to the next
    dilation: int  # outputs from one tap to the next
    full: Dim  # elements before pads cut some off
    pad_begin: Dim | None  # cut off at the beginning
    pad_end: Dim | None  # cut off at the end
    output_padding: int  # appended at the end
    output: Dim | None  # elements of the output

    @property
    def equation(self) -> tuple[str, str]:
        """The formula with the values put in, and its terms worked out."""
        i, k, s, d = self.size, self.kernel, self.stride, self.dilation
        pads = f" - {_signed(self.pad_begin)} - {_signed(self.pad_end)}"
        tail = f"{pads} + {_signed(self.output_padding)}"
        output = "?" if self.output is None else self.output
        second = f"{(i - 1) * s} + {(k - 1) * d + 1}{tail} = {output}"
        return f"{s}*({i}-1) + {d}*({k}-1)+1{tail}", second

    @property
    def text(self) -> str:
        """The equation with numbers."""
        return " = ".join(self.equation)


_LAYER_KEYS = """name type version system attributes inputs output rejected=problem hints remarks
faults *crop rule axes picture systems=verdicts solutions"""


class LayerExplanation(Record, keys=_LAYER_KEYS):
    """The explanation of one deconvolution.

    `crop` is None if the layer is refused, `setting` if the number of axes is unknown.
    """

    name: str  # of the layer
    type: str  # of its operation
    version: str  # operation set
    system: str  # whose rules it follows
    attributes: dict[str, str]  # as the file spells them
    inputs: tuple[str, ...]  # element types and shapes
    output: Annotated[str, str | None]  # element type and shape
    setting: Setting | None
    crop: Crop | None
    rule: PadsRule | None  # the rule that gives the pads
    axes: tuple[AxisEquation, ...]  # the size formula, axis by axis
    picture: tuple[str, ...]  # a drawing of one axis, as lines of text
    verdicts: tuple[Verdict, ...]  # the results of other systems for these attributes
    problem: Problem | None = None  # why the layer is refused
    hints: tuple[str, ...] = ()  # changes that would help
    remarks: tuple[Problem, ...] = ()  # warnings about the layer
    # known faults of runtimes that concern the layer, if its data are quantized
    faults: tuple[str, ...] = ()
    solutions: Solutions | None = None  # attributes for the wanted size, with --solve

    @property
    def verdict(self) -> str:
        """How many systems compute other numbers; names of a few."""
        if self.problem is not None:
            return f"{self.system} refuses it [{self.problem.code}]"
        others = [v.title for v in self.verdicts if v.same is False]
        names = f" ({'; '.join(others)})" if 0 < len(others) <= NAMED_SYSTEMS else ""
        unknown = sum(v.same is None for v in self.verdicts)
        more = f"; {unknown} depend on open sizes" if unknown else ""
        return f"{len(others)} of {len(self.verdicts)} systems differ{names}{more}"


def explain_layer(
    graph: Graph, node: Node, solve_for: Ints | None = None, *, declared: bool = True
) -> LayerExplanation:
    """Explain a deconvolution, even a refused one; `declared`: with the sizes of the file."""
    inputs, op = graph.input_specs(node.id), node.op
    s, crop, remarks, problem = _judged(op, inputs)
    system = find(s.system) if s else None
    solutions = None
    if s and system and solve_for:
        solutions = solve(system, s, solve_for * s.axes if len(solve_for) == 1 else solve_for)
    return LayerExplanation(
        name=node.name,
        type=node.type,
        version=op.version,
        system=system.title if system else node.type,
        attributes=op.to_attributes(),
        inputs=tuple(map(str, inputs)),
        output="?" if problem else str(infer_op(op, inputs)[0]),
        setting=s,
        crop=crop,
        rule=rule(op, s) if s else None,
        axes=tuple(_axes(s, crop)) if s else (),
        picture=tuple(_picture(s, crop)) if s and crop else (),
        verdicts=verdicts(s, crop) if s else (),
        problem=problem,
        hints=tuple(_hints(op, s, crop, problem, _declared(node) if declared else None)),
        remarks=remarks,
        faults=tuple(map(str, faults_of_quantized(s))) if s and is_quantized(graph, node) else (),
        solutions=solutions,
    )


def is_quantized(graph: Graph, node: Node) -> bool:
    """Whether the data of a layer come from a FakeQuantize, or from integers that were scaled."""
    sources = graph.inputs_of(node.id)
    source = graph.node(sources[0].node) if sources else node
    if source.type == "FakeQuantize":
        return True
    for type in ("Multiply", "Subtract", "Convert"):
        if source.type == type:
            source = graph.node(graph.inputs_of(source.id)[0].node)
        elif type != "Subtract":
            return False
    dtype = source.spec().dtype
    return dtype is not None and dtype.is_integral


def _judged(
    op: Op, inputs: tuple[Spec, ...]
) -> tuple[Setting | None, Crop | None, tuple[Problem, ...], Problem | None]:
    """Return setting, window and remarks, or why the layer is refused."""
    s = None
    try:
        s = setting(op, inputs)
        infer_op(op, inputs)
        return s, placed(op, inputs), tuple(op.remarks(*inputs)), None
    except OpError as e:
        return s, None, (), e.problem
    except TypeError:
        return s, None, (), Problem("E208", f"{len(inputs)} inputs do not fit {op.type}")


def _axes(s: Setting, crop: Crop | None) -> Iterator[AxisEquation]:
    for i, full in enumerate(s.full):
        op = s.output_padding[i]
        begin = end = size = None
        if crop is not None:
            begin, end, size = crop.begin[i], crop.end[i] + op, crop.size[i]
        elif s.auto_pad == "explicit" and s.output_shape is None:
            begin, end = s.pads_begin[i], s.pads_end[i]
            size = full - begin - end + op
        yield AxisEquation(
            index=i,
            size=s.size[i],
            kernel=s.kernel[i],
            stride=s.strides[i],
            dilation=s.dilations[i],
            full=full,
            pad_begin=begin,
            pad_end=end,
            output_padding=op,
            output=size,
        )


def _picture(s: Setting, crop: Crop) -> list[str]:
    kernel, begin, end = s.kernel[0], crop.begin[0], crop.end[0]
    if not isinstance(kernel, int) or not isinstance(begin, int) or not isinstance(end, int):
        return ["(kernel or pads depend on sizes that are not known)"]
    size = s.size[0] if isinstance(s.size[0], int) else None
    return picture(size, kernel, s.strides[0], s.dilations[0], begin, end)


def _hints(
    op: Op, s: Setting | None, crop: Crop | None, problem: Problem | None, declared: Shape | None
) -> list[str]:
    """Return the remedies: the refusal's own hint, and changes that give the declared size."""
    hints = [problem.hint] if problem is not None and problem.hint else []
    if s is None or s.output_shape is not None or s.same:
        return hints
    # Those that explicit pads would give a layer that is refused.
    sizes = crop.size if crop else [a.output for a in _axes(s, None) if a.output is not None]
    if declared is None or not sizes or len(declared) != s.axes:
        return hints
    limits: Sequence[int | None] = (None,) * s.axes
    if isinstance(op, DialectDeconvolution):
        limits = op.padding_limits(s)
    for axis, (size, want) in enumerate(zip(sizes, declared, strict=True)):
        if isinstance(size, int) and isinstance(want, int) and size != want:
            extra = s.output_padding[axis]
            pads = sum(row[axis] for row in s.explicit_pads)
            text = size_hint(size, want, extra=extra, limit=limits[axis], pads=pads)
            hints.append(f"the file declares {want} on axis {axis}: {text}")
    return hints


def _declared(node: Node) -> Shape | None:
    """Return the spatial sizes of the output that the file states."""
    shape = node.declared[0].shape if node.declared else None
    if shape is None:
        return None
    last = isinstance(node.op, DialectDeconvolution) and node.op.channels_last
    return shape[1:-1] if last else shape[2:]


def _signed(value: Dim | None) -> str:
    text = "?" if value is None else str(value)
    return f"({text})" if text.startswith("-") else text


OPEN = "The kernel or the pads are not known, or are too large, so no axis is drawn."
LARGEST = 1 << 30  # number of an axis: Python counts positions up to 2^63 only


def layer_picture(e: LayerExplanation) -> LayerPicture:
    """Return the drawing of a layer; axes with equal drawings are drawn once."""
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
    """Return the numbers of every axis, an open size as 0; none if others are open or huge."""
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
    return Overlap(tuple(axis.overlap for axis in anatomies(e)))


def _axis(drawn: AxisAnatomy, same: Sequence[AxisEquation]) -> AxisPicture:
    texts: dict[str, list[str]] = {}
    for a in same:
        first, second = a.equation
        texts.setdefault(f"{FORMULA} = {first} = {second}", []).append(str(a.index))
    notes = list(texts)
    if len(texts) > 1:
        notes = [f"axis {' and '.join(axes)}: {text}" for text, axes in texts.items()]
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
    listed = " and ".join(str(a.index) for a in same)
    title = f"Axes {listed}, drawn once" if len(same) > 1 else f"Axis {listed}"
    return AxisPicture(title=title, notes=tuple(notes), axis=drawn)


MOST_AT_ONCE = 8


class Explanation(Record, document="explain/1", keys="file? layers", repr=False):
    """The output of each deconvolution, and the reasons; `str()` is the text."""

    layers: tuple[LayerExplanation, ...]  # one for each deconvolution
    file: str | None = None  # the model, as the command names it

    @property
    def accepted(self) -> bool:
        """Whether no layer is refused by its own system."""
        return all(e.problem is None for e in self.layers)

    def __repr__(self) -> str:
        refused = [plain(e.name) for e in self.layers if e.problem is not None]
        verdict = f"refused {', '.join(refused)}" if refused else "all accepted"
        return one_line(self, None, count(len(self.layers), "deconvolution"), verdict)

    def _repr_html_(self) -> str:
        return html_text(str(self)) + self.to_svg()

    def __str__(self) -> str:
        first = "\n".join(f"{e.name}: {e.verdict}" for e in self.layers) or "no deconvolutions"
        return printable("\n\n".join([first, *("\n".join(_text(e)) for e in self.layers)]))

    def to_svg(self) -> str:
        """Return a picture: every axis with its zeros, pads, taps and phases, and overlap maps."""
        return svg([layer_picture(e) for e in self.layers])

    _repr_svg_ = to_svg


def explain(
    graph: Graph,
    layer: str | None = None,
    solve: int | Sequence[int] | None = None,
    shapes: Mapping[int, Shape | None] | None = None,
) -> Explanation:
    """Explain one deconvolution by its name, or all if there are few.

    With `solve` (a size for all axes, or one per axis) every explanation lists attributes that give
    this output size; `shapes` replaces those of Parameters by node id. Raises UsageError for a name
    that is no deconvolution, for too many to be explained at once, and for sizes that do not fit
    the axes.
    """
    copy = graph.copy()
    infer_specs(copy, shapes)
    wanted = (
        None if solve is None else (solve,) if isinstance(solve, int | np.integer) else tuple(solve)
    )
    found = []
    for node in _chosen(copy, layer):
        sizes = _checked(wanted, copy, node)
        # With other input shapes the file's declarations are meaningless.
        found.append(explain_layer(copy, node, sizes, declared=not shapes))
    return Explanation(tuple(found))


def _chosen(graph: Graph, layer: str | None) -> list[Node]:
    known = [n for n in graph.nodes() if n.op.deconvolution]
    names = ", ".join(f'"{n.name}"' for n in known[:MOST_AT_ONCE]) + (
        ", ..." if len(known) > MOST_AT_ONCE else ""
    )
    if layer is None:
        if len(known) > MOST_AT_ONCE:
            raise misused(f"there are {len(known)} deconvolutions; name one: {names}")
        return known
    found = [n for n in known if n.name == layer]
    if not found:
        other = next(iter(graph.find(layer)), None)
        other_layer = f'"{layer}" is a {other.type}' if other else f'there is no layer "{layer}"'
        hint = did_you_mean(layer, [n.name for n in known])
        known_names = f"the deconvolutions are {names}" if names else "there are no deconvolutions"
        raise misused(f"{other_layer}; {known_names}", hint)
    return found


def _checked(wanted: tuple[int, ...] | None, graph: Graph, node: Node) -> tuple[int, ...] | None:
    if wanted is None:
        return None
    if not wanted or not all(isinstance(n, int | np.integer) and n >= 1 for n in wanted):
        message = f"the wanted size {shape_text(wanted)} must be an integer of at least 1"
        raise misused(f"{message} on every axis")
    rank = graph.input_specs(node.id)[0].rank if graph.inputs_of(node.id) else None
    if rank is not None and len(wanted) not in (1, rank - 2):
        few = f'{len(wanted)} wanted sizes for the {rank - 2} axes of "{node.name}"'
        raise misused(f"{few}; give one for all or one per axis")
    return tuple(map(int, wanted))  # JSON has no integers of NumPy


def _text(e: LayerExplanation) -> Iterator[str]:
    yield f"{e.name}: {e.type} ({e.version}), {e.system}"
    yield f"  {_attributes({k: v for k, v in e.attributes.items() if v})}"
    yield f"  {' x '.join(e.inputs[:2])} -> {e.output}"
    if e.problem is not None:
        yield f"  rejected [{e.problem.code}]: {e.problem.message}"
    yield from (f"  hint: {h}" for h in e.hints)
    yield from (f"  warning [{r.code}]: {r.message}" for r in e.remarks)
    yield from (f"  known fault of {fault}" for fault in e.faults)
    if e.setting is None:
        yield "  the number of axes or the pads are unknown, so there is no more to say"
        return
    yield ""
    yield from _size_text(e)
    if e.picture:
        yield "\nfirst axis: w0, w1, ... are the taps, - is a tap over a zero"
        yield from (f"  {line}".rstrip() for line in e.picture)
    yield "\nwhat would the others compute from these attributes"
    yield "(begin, end: how many elements are cut off there; negative: zeros are added)"
    yield _verdict_table(e.verdicts)
    if e.solutions is not None:
        yield from _solutions_text(e)


def _size_text(e: LayerExplanation) -> Iterator[str]:
    assert e.rule is not None
    yield f"output size: {FORMULA}"
    yield f"  pads: {e.rule.text}"
    for a in e.axes:
        first, second = a.equation
        yield f"  axis {a.index}: O = {first}"
        yield f"            = {second}"
        if e.rule.totals and e.crop is not None:
            t = e.rule.totals[a.index]
            split = e.rule.split(a.index)
            yield f"          total = {t.formula} = {t.numbers} = {t.value}; {split}"


def _verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for v in verdicts:
        c = v.crop
        cells = [shape_text(d) for d in (c.size, c.begin, c.end)] if c else ["", "", ""]
        rows.append((v.title, *cells))
    # A row is a line, however long its numbers are.
    lines = table(("system", "output", "begin", "end"), rows, width=1 << 16).splitlines()
    width = max(map(len, lines))
    out = [f"  {lines[0].ljust(width)}  numbers", f"  {lines[1].ljust(width)}  -------"]
    for line, v in zip(lines[2:], verdicts, strict=True):
        out.append(f"  {line.ljust(width)}  {v.text}")
        if v.instead is not None:
            out.append(f"  {' ' * width}    the same with {_attributes(v.instead)}")
    return "\n".join(out)


def _attributes(attributes: dict[str, str]) -> str:
    return " ".join(f"{k}={v}" for k, v in attributes.items())


def _solutions_text(e: LayerExplanation) -> Iterator[str]:
    s = e.solutions
    assert s is not None
    yield f"\nattributes with which {e.system} gives {shape_text(s.wanted)}"
    if s.reason or not s.found:
        yield f"  {s.reason or 'none'}"
        return
    wide = max(len(_attributes(f.attributes)) for f in s.found)
    yield f"  {'attributes':<{wide}}  begin  end"
    for f in s.found:
        begin, end = shape_text(f.crop.begin), shape_text(f.crop.end)
        yield f"  {_attributes(f.attributes):<{wide}}  {begin:<5}  {end}"
    if s.more or not s.complete:
        yield f"  and {'at least ' if not s.complete else ''}{s.more} more"
