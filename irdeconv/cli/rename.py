"""`rename`: give layers, inputs, outputs and other tensors new names."""

from __future__ import annotations

import argparse

from irdeconv.base.errors import count, misused
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.lower_onnx import onnx_model, write_onnx
from irdeconv.cli.model import WrittenModel, inferred, read, write_model
from irdeconv.formats.onnx_editing import outline, rename_parts
from irdeconv.ir.graph import Graph
from irdeconv.runtime.rename import KINDS, Renaming, rename


class RenameDocument(WrittenModel, document="rename/1"):
    """New names."""

    renamed: tuple[Renaming, ...]  # every name that changed


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Rename, write, report."""
    if not (args.names or args.patterns):
        raise misused("nothing to rename: give OLD=NEW or --pattern s/OLD/NEW/")
    model = onnx_model(args)
    graph = inferred(read(args), ()) if model is None else outline(model)
    wanted = [kind for kind in KINDS if args.only in (None, f"{kind}s")]
    done = rename(graph, _pairs(graph, args.names), args.patterns, wanted)
    changes = done.changes
    if model is None:
        write_model(done.graph, args, console)
    else:
        rename_parts(model, *done.new_names)
        write_onnx(model, (), args, console)

    def text() -> None:
        kinds: dict[tuple[str, str], list[str]] = {}
        for c in changes:
            kinds.setdefault((c.old, c.new), []).append(c.kind)
        for (old, new), both in kinds.items():
            console.text(f"{' and '.join(both)} {old} -> {new}")
        console.text(f"{args.file}: {count(len(kinds), 'name')} changed")

    return Answer(lambda: RenameDocument(args.file, args.output, changes), text)


def _pairs(graph: Graph, texts: list[str]) -> dict[str, str]:
    """Split OLD=NEW; names may contain "=": the longest old name that the model has wins."""
    known = {n.name for n in graph.nodes()}
    known |= {t for n in graph.nodes() for names in n.tensor_names for t in names}
    out: dict[str, str] = {}
    for text in texts:
        cuts = [i for i, c in enumerate(text) if c == "="]
        if not cuts:
            raise misused(f'"{text}" is not of the form OLD=NEW', f"for example: {text}=new")
        known_cuts = [i for i in cuts if {text[:i], text[:i].partition(":")[2]} & known]
        at = (known_cuts or cuts[:1])[-1]
        if text[:at] in out:
            raise misused(f'"{text[:at]}" is renamed twice')
        out[text[:at]] = text[at + 1 :]
    return out
