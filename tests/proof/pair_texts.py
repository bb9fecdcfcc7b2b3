"""Pairs of models as text: the files of tests/proof/pairs, and the IR files that they become.

A file has blocks that begin with `== name`. A block has one pair or several of one kind. What
stands above the first block holds for all of them. The words of a block, each on a line of its own:

    # ...                           a comment
    let w = filter(1, 3, 2, 4)      an array, by NumPy
    expect equal                    the verdict
    before                          the layers of the original, indented
    after                           those of the other model
    after s2                        the same, and the original is s2 of graphs.txt
    moved                           lines that replace those of `after`: a near miss
    moved whole                     all lines of the near miss
    changed                         the same for another near miss; without it one number of `w`,
                                    where there is such an array, is another one
    at [1,2,5,5] [4,3]              shapes of the inputs for a run, or values: ={[21, 7]}
    xml "regex" -> "text"           a change of the other model's .xml file
    says name out [1,2]             an output, or `in` an input with its source, declares these
                                    sizes, or a precision, whatever it has
    mark name 2,2                   a layer is marked as zero-insertion with these strides
    half before after               these models are saved with real constants in f16
    reversed                        the layers of the other file in the opposite order
    renumbered                      the layers of the other file with other ids
    verbatim                        the files are what the text says, not what OpenVINO makes of it

A layer is `name = Type-opset(inputs, attribute=value)`; opset1 is not written. Layers that only one
other layer reads may stand in the place of its input. Integers and lists of integers are constants
of i64, real numbers of f32, and `{w[0]}` is an array by NumPy of f32, `i32{5}` of another type.
`a, b = Split(x, 1)` has two outputs. `y "out" = ...` names a tensor; of a Result it is the one that
it reads. A model without inputs has those of `before`. Bodies of loops and branches are indented
below their layer, with lines `in`, `out` and `back` for its port map.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from lxml import etree

from support import irbuild as ib
from support.ir_edit import NUMPY

FOLDER = Path(__file__).resolve().parent / "pairs"
Lines = tuple[str, ...]
End = tuple[int, int, str]  # a layer, the number of its port, an element type
_CALL = re.compile(r"(?P<kind>[A-Za-z]\w*)(?:-(?P<opset>[\w.]+))?\((?P<inside>.*)\)", re.DOTALL)
_OUTPUT = re.compile(r"\s*([^\s\",]+)(?:\s+\"([^\"]*)\")?\s*,?")
_ARRAY = re.compile(r"(?P<type>\w*)\{(?P<text>.*)\}", re.DOTALL)
_DEFAULTS = {"ShapeOf-3": [("output_type", "i64")]}  # OpenVINO has others for the rest
_SAID = re.compile(r"([\w-]+)=(.*)", re.DOTALL)


# Arrays


def filter_of(*shape: int, scale: float = 1.0) -> Any:
    """Return the filter [g, C/g, M/g, *K] of a deconvolution: distinct integers but 0, scaled."""
    count = prod(shape)
    order = np.random.default_rng(count).permutation(count)
    values = (order + 1) * np.where(order % 3 == 0, -1, 1)
    return (values * scale).astype(np.float32).reshape(shape)


def flip(w: Any) -> Any:
    """Return the filter [g, M/g, C/g, *K] of the convolution that sums the same products."""
    return np.swapaxes(w, 1, 2)[(..., *(slice(None, None, -1),) * (w.ndim - 3))]


def dense(w: Any) -> Any:
    """Return a filter of one group with zeros between those of the groups."""
    g, a, b, *k = w.shape
    made = np.zeros((g, a, g, b, *k), np.float32)
    made[range(g), :, range(g)] = w
    return made.reshape(1, g * a, g * b, *k)


def stacked(w: Any, strides: Any, dilations: Any, first: bool = False) -> Any:
    """Return the filter whose outputs are those of all residues modulo the strides.

    [g, (M/g, *S), C/g, *E], or where they are `first`, [1, (*S, M), C, *E].
    """
    w, k = w.swapaxes(1, 2), len(strides)
    g, m, c, *kernel = w.shape
    reaches = [
        -(-(d * (n - 1) + 1) // s) for d, n, s in zip(dilations, kernel, strides, strict=True)
    ]
    out = np.zeros((g, m, *strides, c, *reaches), np.float32)
    for tap in np.ndindex(*kernel):
        at = [divmod(d * i, s) for d, i, s in zip(dilations, tap, strides, strict=True)]
        place = [e - 1 - q for e, (q, _) in zip(reaches, at, strict=True)]
        out[(slice(None), slice(None), *(r for _, r in at), slice(None), *place)] = w[(..., *tap)]
    if not first:
        return out.reshape(g, -1, c, *reaches)
    whole = np.zeros((g, m, g, *out.shape[2:]), np.float32)
    whole[range(g), :, range(g)] = out
    order = [*range(3, 3 + k), 0, 1, 2, *range(3 + k, 4 + 2 * k)]
    return whole.transpose(order).reshape(1, -1, g * c, *reaches)


def put(w: Any, at: Any, number: float) -> Any:
    """Return a copy with another number at a place."""
    w = np.array(w, np.float32)
    w[at] = number
    return w


def units(w: Any, taps: list[int], length: int) -> Any:
    """Return a filter [g, n*C/g, C/g, length, 1, ...]: channel (t, c) copies c from taps[t]."""
    g, c = w.shape[:2]
    made = np.zeros((g, len(taps), c, c, length), np.float32)
    for i, t in enumerate(taps):
        made[:, i, range(c), range(c), t] = 1
    return made.reshape(g, len(taps) * c, c, length, *(1,) * (w.ndim - 4))


_NAMES = {"np": np, "filter": filter_of, "inf": np.inf, "nan": np.nan}
_NAMES |= {"flip": flip, "dense": dense, "stacked": stacked, "put": put, "units": units}


def value(text: str, lets: dict[str, Any]) -> Any:
    """Evaluate an expression of NumPy."""
    return eval(text, {**_NAMES, **lets})


# Files


@dataclass(frozen=True)
class Pair:
    """Two models, and what is expected of a check."""

    name: str
    cause: str  # the name of the file
    lets: dict[str, Any] = field(default_factory=dict)
    at: list[list[Any]] = field(
        default_factory=list
    )  # of each run, of each input: a shape or values
    expect: str = ""
    before: Lines = ()
    after: Lines = ()
    moved: Lines = ()
    changed: Lines = ()
    whole: tuple[str, ...] = ()  # the near misses of which the text has all lines
    edits: tuple[tuple[str, str], ...] = ()  # of the file: words with the rest of their lines
    half: tuple[str, ...] = ()
    verbatim: bool = False

    @property
    def is_open(self) -> bool:
        """Whether an input has a size that the file leaves open."""
        return any("?" in line for line in self.before if " = Parameter " in line)

    def variants(self) -> list[str]:
        """Return the near misses."""
        changed = self.changed or "w" in self.lets
        return ["changed"] * bool(changed) + ["moved"] * bool(self.moved)

    def write(self, folder: Path, variant: str = "") -> tuple[Path, Path]:
        """Write original.xml and lowered.xml; return their paths."""
        paths = folder / "original.xml", folder / "lowered.xml"
        lets = dict(self.lets)
        after = self.after
        news = {"moved": self.moved, "changed": self.changed}.get(variant, ())
        if news:
            after = news if variant in self.whole else replaced(after, news)
        elif variant == "changed":
            lets["w"] = w = lets["w"].copy()
            w.flat[w.size // 2] += np.abs(w).min()
        inputs = [line for line in self.before if " = Parameter " in line]
        after = after if any(" = Parameter " in line for line in after) else (*inputs, *after)
        self._save(paths[0], self.before, self.lets, "before" in self.half)
        self._save(paths[1], after, lets, "after" in self.half)
        for word, rest in self.edits:
            text = paths[1].read_text("utf-8")
            paths[1].write_text(_EDITS[word](text, rest), "utf-8")
        return paths

    def _save(self, path: Path, lines: Lines, lets: dict[str, Any], half: bool) -> None:
        file = _File(lets)
        layers, edges = _Layers(file, path.stem).read(lines)
        xml = ib.net(layers, *edges)
        if self.verbatim:
            path.write_text(xml, "utf-8")
            path.with_suffix(".bin").write_bytes(file.blob)
            return
        import openvino

        from support.runtime_truth import core

        weights = openvino.Tensor(np.frombuffer(file.blob, np.uint8).copy())
        openvino.save_model(core().read_model(xml.encode(), weights), path, compress_to_fp16=half)


def replaced(lines: Lines, news: Lines) -> Lines:
    """Replace the lines of layers by those of the same names."""
    by_name = {line.split(" ")[0]: line for line in news}
    made = tuple(by_name.pop(line.split(" ")[0], line) for line in lines)
    assert not by_name, by_name
    return made


def _substituted(text: str, rest: str) -> str:
    """Replace what matches a regular expression."""
    old, new = (part[1:-1] for part in rest.split(" -> "))
    text, count = re.subn(old, new, text)
    assert count, rest
    return text


def _says(text: str, rest: str) -> str:
    """Let a port declare other sizes or another precision."""
    name, side, said = rest.split()
    root = etree.fromstring(text.encode())
    (layer,) = root.xpath(f"layers/layer[@name='{name}']")
    ports = [layer.find(f"{side}put/port")]
    if side == "in":
        (edge,) = root.xpath(f"edges/edge[@to-layer='{layer.get('id')}'][@to-port='0']")
        ports += root.xpath(f"layers/layer[@id='{edge.get('from-layer')}']/output/port[1]")
    for port in ports:
        if said.startswith("["):
            port[:] = [etree.fromstring(f"<dim>{n}</dim>") for n in said.strip("[]").split(",")]
        else:
            port.set("precision", said)
    return etree.tostring(root, encoding="unicode")


def _marked(text: str, rest: str) -> str:
    """Mark a layer as zero-insertion."""
    name, strides = rest.split()
    root = etree.fromstring(text.encode())
    (layer,) = root.xpath(f"layers/layer[@name='{name}']")
    said = {"name": "irdeconv_zero_insertion", "version": "0", "strides": strides}
    etree.SubElement(etree.SubElement(layer, "rt_info"), "attribute", said)
    return etree.tostring(root, encoding="unicode")


def _reversed(text: str, _: str) -> str:
    """Write the layers in the opposite order, inputs and results as they were."""
    root = etree.fromstring(text.encode())
    layers = root.find("layers")
    ends = [e for e in layers if e.get("type") in ("Parameter", "Result")]
    layers[:] = [*[e for e in layers if e not in ends][::-1], *ends]
    return etree.tostring(root, encoding="unicode")


def _renumbered(text: str, _: str) -> str:
    """Give the layers other ids."""
    pattern = r'((?:<layer id|from-layer|to-layer)=")(\d+)'
    return re.sub(pattern, lambda m: f"{m[1]}{1000 - 3 * int(m[2])}", text)


_EDITS = {"xml": _substituted, "says": _says, "mark": _marked}
_EDITS |= {"reversed": _reversed, "renumbered": _renumbered}


@cache
def kinds(folder: str) -> dict[str, list[Pair]]:
    """Return the pairs of all files in a folder by file and block, "gemm: Einsum"."""
    return {
        f"{pairs[0].cause}: {name}": pairs
        for path in sorted((FOLDER / folder).glob("*.txt"))
        for name, pairs in _blocks(path).items()
    }


@cache
def graphs() -> dict[str, Pair]:
    """Return the models that pairs name, each as the original of a pair."""
    return {name: pairs[0] for name, pairs in _blocks(FOLDER / "graphs.txt").items()}


def _blocks(path: Path) -> dict[str, list[Pair]]:
    head, *blocks = re.split(r"^== ", path.read_text("utf-8"), flags=re.M)
    found: dict[str, list[Pair]] = {}
    for block in blocks:
        name, _, text = block.partition("\n")
        assert name not in found, name
        found[name] = _pairs(name, path.stem.rstrip("_0123456789").replace("_", " "), head + text)
    return found


def _pairs(name: str, cause: str, text: str) -> list[Pair]:
    """Return the pairs of a block; each begins with `before`, or with `after` and a graph."""
    common: dict[str, Any] = {"lets": {}, "at": [], "edits": ()}
    found: list[dict[str, Any]] = []
    for word, rest, inner in _statements(text):
        at = found[-1] if found else common
        if word == "before" or (word == "after" and rest):
            found.append({**common, "lets": dict(common["lets"]), "at": list(common["at"])})
            at = found[-1]
        if word == "let":
            key, _, expression = rest.partition(" = ")
            at["lets"][key] = value(expression, at["lets"])
        elif word == "at":
            at["at"] = [*at["at"], [_fed(part, at["lets"]) for part in _split(rest, " ")]]
        elif word in _EDITS:
            at["edits"] += ((word, rest),)
        elif word in ("expect", "half", "verbatim"):
            at[word] = {"expect": rest, "half": tuple(rest.split()), "verbatim": True}[word]
        else:
            assert word in ("before", "after", "moved", "changed"), word
            at[word] = inner
            if rest == "whole":
                at["whole"] = (*at.get("whole", ()), word)
            elif word == "after" and rest:
                graph = graphs()[rest]
                at |= {"before": graph.before, "at": graph.at, "lets": {**graph.lets, **at["lets"]}}
    return [Pair(name=name, cause=cause, **fields) for fields in found]


def _statements(text: str) -> Iterator[tuple[str, str, Lines]]:
    """Yield the first word of a line, its rest, and the lines indented below it.

    A line whose brackets are open goes on in the next one.
    """
    rows: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            if rows and _depth(rows[-1]):
                rows[-1] += " " + line.strip()
            else:
                rows.append(line)
    starts = [i for i, row in enumerate(rows) if not row.startswith(" ")]
    for i, end in pairwise([*starts, len(rows)]):
        word, _, rest = rows[i].strip().partition(" ")
        yield word, rest, tuple(row[2:] for row in rows[i + 1 : end])


def _fed(text: str, lets: dict[str, Any]) -> Any:
    """Return a shape as a list, or values as an array."""
    if text.startswith("="):
        return np.array(value(text[2:-1], lets))
    return [int(n) for n in text.strip("[]").split(",") if n]


def _depth(text: str) -> int:
    """Return how many brackets are open at the end of a text, outside of quotes."""
    return sum((c in "([{") - (c in ")]}") for c in re.sub(r'"[^"]*"', "", text))


def _split(text: str, at: str) -> list[str]:
    """Split at a separator outside of brackets and quotes."""
    parts = [""]
    for part in text.split(at):
        whole = not _depth(parts[-1]) and parts[-1].count('"') % 2 == 0
        parts = [*parts, part] if whole else [*parts[:-1], parts[-1] + at + part]
    return [part.strip() for part in parts if part.strip()]


def _bare(text: str) -> str:
    """Return the value of an attribute without quotes or brackets."""
    return text[1:-1] if text.startswith(('"', "[")) else text


# Models


class _File:
    """The arrays that a model names, and the bytes of its constants."""

    def __init__(self, lets: dict[str, Any]) -> None:
        self.lets, self.blob = lets, b"\0" * 8  # OpenVINO reads no empty file

    def store(self, text: str) -> tuple[tuple[int, ...], int, int, str]:
        """Return shape, offset, size and element type of a constant."""
        found = _ARRAY.fullmatch(text)
        type = (found["type"] or "f32") if found else "f32" if re.search("[.en]", text) else "i64"
        array = np.array(value(found["text"] if found else text, self.lets))
        data = array.astype(NUMPY.get(type, np.uint8), casting="unsafe").tobytes()
        if type == "u4":
            low, high = np.resize(array.ravel(), (array.size + 1) // 2 * 2).reshape(-1, 2).T
            data = (low + 16 * high).astype(np.uint8).tobytes()
        self.blob += data
        return array.shape, len(self.blob) - len(data), len(data), type


class _Layers:
    """The layers of a model or of a body, line by line."""

    def __init__(self, file: _File, prefix: str) -> None:
        self.file, self.prefix = file, prefix
        self.layers: list[str] = []
        self.edges: list[tuple[int, int, int, int]] = []
        self.ends: dict[str, End] = {}
        self.ids: dict[str, int] = {}
        self.type = "f32"  # what ports say: the type of the input, right or wrong

    def read(self, lines: Lines) -> tuple[list[str], list[tuple[int, int, int, int]]]:
        for word, rest, inner in _statements("\n".join(lines)):
            if word not in ("in", "out", "back"):
                names, _, made = f"{word} {rest}".partition(" = ")
                self._line([m.groups() for m in _OUTPUT.finditer(names)], made, inner)
        return self.layers, self.edges

    def _line(self, outputs: list[tuple[str, str | None]], text: str, inner: Lines) -> None:
        (name, tensor), *_ = outputs
        head, _, rest = text.partition(" ")
        if head == "Parameter":
            type, _, dims = rest.rstrip("]").partition("[")
            said = f'shape="{dims}" element_type="{type}"'
            self.type = type if not self.layers else self.type
            named = [(name, name if tensor is None and self._whole else tensor)]
            self._add(name, ("Parameter", "opset1", said), [], named, type)
        elif head == "Const":
            self._constant(rest, name)
        else:
            body = "\n".join(self._body(*part) for part in _statements("\n".join(inner)))
            self._call(text, outputs, body)

    @property
    def _whole(self) -> bool:
        """Whether this is a model, not a body."""
        return self.prefix in ("original", "lowered")

    def _call(self, text: str, outputs: list[tuple[str, str | None]], body: str = "") -> End:
        found = _CALL.fullmatch(text)
        assert found, text
        kind, opset = found["kind"], found["opset"] or "1"
        parts = _split(found["inside"], ",")
        said = [m.groups() for part in parts if (m := _SAID.fullmatch(part))]
        tensor = outputs[0][1] if kind == "Result" else None
        inputs = [self._end(part, tensor) for part in parts if not _SAID.fullmatch(part)]
        said = said or _DEFAULTS.get(f"{kind}-{opset}", [])
        attributes = " ".join(f"{k}={quoteattr(_bare(v))}" for k, v in said)
        head = kind, f"opset{opset}" if opset.isdigit() else opset, attributes
        named = [] if kind == "Result" else outputs
        return self._add(outputs[0][0], head, inputs, named, self.type, body)

    def _end(self, text: str, tensor: str | None = None) -> End:
        """Return what an input reads: a name, a constant, or a layer in its place."""
        if text in self.ends:
            return self.ends[text]
        found = _CALL.fullmatch(text)
        if not found or text[0] in "[{":
            return self._constant(text, "")
        name = f"{self.prefix}/{found['kind']}/{len(self.layers)}"
        return self._call(text, [(name, tensor)])

    def _constant(self, text: str, name: str) -> End:
        shape, offset, size, type = self.file.store(text)
        name = name or f"{self.prefix}/Constant/{len(self.layers)}"
        said = f'element_type="{type}" shape="{",".join(map(str, shape))}" offset="{offset}"'
        head = "Const", "opset1", f'{said} size="{size}"'
        return self._add(name, head, [], [(name, None)], type, dims=shape)

    def _add(
        self,
        name: str,
        head: tuple[str, str, str],
        inputs: list[End],
        outputs: list[tuple[str, str | None]],
        type: str,
        body: str = "",
        dims: Any = (),
    ) -> End:
        ident, count = len(self.layers), len(inputs)
        self.ids[name] = ident
        self.edges += [(layer, port, ident, i) for i, (layer, port, _) in enumerate(inputs)]
        ports = []
        for i, (output, tensor) in enumerate(outputs, count):
            more = f" names={quoteattr(tensor)}" if tensor else ""
            ports.append(ib.port(i, dims, ib.PRECISIONS.get(type, type.upper()), more))
            self.ends[output] = ident, i, type
        kind, version, said = head
        sides = {"inputs": [ib.port(i) for i in range(count)], "outputs": ports}
        made = ib.layer(ident, name, kind, said or None, version=version, body=body, **sides)
        self.layers.append(made)
        return ident, count, type

    def _body(self, word: str, _: str, lines: Lines) -> str:
        """Return a body with its port map."""
        inner = _Layers(self.file, f"{self.prefix}/{word}")
        layers, edges = inner.read(lines)
        head = "" if word == "body" else f"{word}_"
        rows: dict[str, list[str]] = {"in": [], "out": [], "back": []}
        for line in [text for text in lines if text.startswith(("in ", "out ", "back "))]:
            side, a, b, *said = line.split()
            more = "".join(f' {k}="{v}"' for k, _, v in (s.partition("=") for s in said))
            if side == "back":
                ends = f'from-layer="{inner.ids[a]}" to-layer="{inner.ids[b]}"'
                rows[side].append(f"<edge {ends}/>")
            else:
                ends = f'external_port_id="{a}" internal_layer_id="{inner.ids[b]}"'
                rows[side].append(f"<{side}put {ends}{more}/>")
        text = f"<{head}port_map>{''.join(rows['in'] + rows['out'])}</{head}port_map>"
        if rows["back"]:
            text += f"<back_edges>{''.join(rows['back'])}</back_edges>"
        inside = f"<layers>{''.join(layers)}</layers><edges>{ib.edges(*edges)}</edges>"
        return f"{text}<{head}body>{inside}</{head}body>"
