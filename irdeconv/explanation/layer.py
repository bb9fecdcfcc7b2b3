"""The explanation of one deconvolution: terms per axis, rule, picture, verdicts, solutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from irdeconv.attributes import Ints
from irdeconv.dialects.pads import PadsRule
from irdeconv.dialects.setting import Setting
from irdeconv.dialects.system import Crop, placed
from irdeconv.dialects.template import DialectDeconvolution
from irdeconv.errors import OpError, Problem
from irdeconv.explanation.picture import picture
from irdeconv.explanation.solve import Solutions, solve
from irdeconv.explanation.systems import rule, setting
from irdeconv.explanation.verdicts import Verdict, crop_dict, find, numbers, verdicts
from irdeconv.geometry_hints import size_hint
from irdeconv.graph import Graph, Node
from irdeconv.op import Op, infer_op
from irdeconv.runtime_faults import faults_of_quantized
from irdeconv.spec import Dim, Shape, Spec

FORMULA = "O = S(I-1) + D(K-1)+1 - pb - pe + op"


@dataclass(frozen=True)
class AxisEquation:
    """The terms of O = S(I-1) + D(K-1)+1 - pb - pe + op on one axis; texts where unknown."""

    index: int
    size: Dim
    kernel: Dim
    stride: int
    dilation: int
    full: Dim
    pad_begin: Dim | None
    pad_end: Dim | None
    output_padding: int
    output: Dim | None

    @property
    def equation(self) -> tuple[str, str]:
        """The formula with the values put in, and its terms worked out."""
        i, k, s, d = self.size, self.kernel, self.stride, self.dilation
        pb, pe = _known(self.pad_begin), _known(self.pad_end)
        tail = f" - {_signed(pb)} - {_signed(pe)} + {_signed(self.output_padding)}"
        first = f"{s}*({i}-1) + {d}*({k}-1)+1{tail}"
        second = f"{(i - 1) * s} + {(k - 1) * d + 1}{tail} = {_known(self.output)}"
        return first, second

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        terms = {
            "input": self.size,
            "kernel": self.kernel,
            "full": self.full,
            "pad_begin": self.pad_begin,
            "pad_end": self.pad_end,
            "output": self.output,
        }
        return {
            "axis": self.index,
            "stride": self.stride,
            "dilation": self.dilation,
            "output_padding": self.output_padding,
            **{k: None if v is None else numbers((v,))[0] for k, v in terms.items()},
            "equation": f"{self.equation[0]} = {self.equation[1]}",
        }


@dataclass(frozen=True)
class LayerExplanation:
    """What there is to say about one deconvolution.

    `problem` is why the layer is refused, `hints` what would help; `crop` is then None. `setting`
    is None where the number of axes is unknown. `faults` are known faults of runtimes that concern
    the layer, if its data are quantized.
    """

    name: str
    type: str
    version: str
    system: str
    attributes: dict[str, str]
    inputs: tuple[str, ...]
    output: str
    setting: Setting | None
    crop: Crop | None
    rule: PadsRule | None
    axes: tuple[AxisEquation, ...]
    picture: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    problem: Problem | None = None
    hints: tuple[str, ...] = ()
    remarks: tuple[Problem, ...] = ()
    faults: tuple[str, ...] = ()
    solutions: Solutions | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        p = self.problem
        return {
            "name": self.name,
            "type": self.type,
            "version": self.version,
            "system": self.system,
            "attributes": self.attributes,
            "inputs": list(self.inputs),
            "output": self.output,
            "rejected": None if p is None else {"code": p.code, "message": p.message},
            "hints": list(self.hints),
            "remarks": [{"code": r.code, "message": r.message} for r in self.remarks],
            "faults": list(self.faults),
            **crop_dict(self.crop),
            "rule": self.rule.to_dict() if self.rule else None,
            "axes": [a.to_dict() for a in self.axes],
            "picture": list(self.picture),
            "systems": [v.to_dict() for v in self.verdicts],
            "solutions": self.solutions.to_dict() if self.solutions else None,
        }


def explain_layer(
    graph: Graph, node: Node, solve_for: Ints | None = None, *, declared: bool = True
) -> LayerExplanation:
    """Explain one deconvolution of an inferred graph; it may be one that inference refused.

    `declared` says whether the sizes that the file states are to be looked at.
    """
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
        axes=_axes(s, crop) if s else (),
        picture=tuple(_picture(s, crop)) if s and crop else (),
        verdicts=tuple(verdicts(s, crop)) if s else (),
        problem=problem,
        hints=tuple(_hints(op, s, crop, problem, _declared(node) if declared else None)),
        remarks=remarks,
        faults=_faults(s) if s and is_quantized(graph, node) else (),
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


def _faults(s: Setting) -> tuple[str, ...]:
    found = faults_of_quantized(
        size=s.size,
        kernel=s.kernel,
        strides=s.strides,
        groups=s.groups,
        channels=s.channels,
        outputs=s.outputs,
    )
    return tuple(map(str, found))


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


def _axes(s: Setting, crop: Crop | None) -> tuple[AxisEquation, ...]:
    out = []
    for i, full in enumerate(s.full):
        op = s.output_padding[i]
        begin = end = size = None
        if crop is not None:
            begin, size = crop.begin[i], crop.size[i]
            end = crop.end[i] + op
        elif s.auto_pad == "explicit" and s.output_shape is None:
            begin, end = s.pads_begin[i], s.pads_end[i]
            size = full - begin - end + op
        out.append(
            AxisEquation(
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
        )
    return tuple(out)


def _picture(s: Setting, crop: Crop) -> list[str]:
    kernel, begin, end = s.kernel[0], crop.begin[0], crop.end[0]
    if not isinstance(kernel, int) or not isinstance(begin, int) or not isinstance(end, int):
        return ["(kernel or pads depend on sizes that are not known)"]
    size = s.size[0] if isinstance(s.size[0], int) else None
    return picture(size, kernel, s.strides[0], s.dilations[0], begin, end)


def _hints(
    op: Op,
    s: Setting | None,
    crop: Crop | None,
    problem: Problem | None,
    declared: Shape | None,
) -> list[str]:
    """Return what would help: the refusal's own hint, and how the declared size is reached."""
    hints = [problem.hint] if problem is not None and problem.hint else []
    if s is None or s.output_shape is not None or s.same:
        return hints
    sizes = crop.size if crop else _open(s)
    if declared is None or sizes is None or len(declared) != s.axes:
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


def _open(s: Setting) -> Shape | None:
    """Return the sizes that explicit pads would give a layer that is refused."""
    return tuple(a.output for a in _axes(s, None) if a.output is not None) or None


def _known(value: Dim | None) -> str:
    return "?" if value is None else str(value)


def _signed(value: int | str) -> str:
    text = str(value)
    return f"({text})" if text.startswith("-") else text
