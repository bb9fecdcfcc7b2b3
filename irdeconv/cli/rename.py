"""Give layers, inputs, outputs and other tensors of a model new names.

OLD=NEW renames the layer and the tensor that are called OLD. layer:OLD=NEW renames only the layer,
tensor:OLD=NEW only the tensor. The names by which programs ask for inputs and outputs are those of
tensors. All renaming happens at once, so two names may be exchanged. --pattern applies a regular
expression to all other names, as sed does. Layers in bodies keep their names.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from irdeconv.base.errors import count
from irdeconv.cli.console import Answer, Console
from irdeconv.cli.verbs import HEAD, Verb

if TYPE_CHECKING:
    from irdeconv.ir.graph import Graph
    from irdeconv.runtime.rename import Substitution

_FLAGS = {"": False, "g": True}


def substitution(text: str) -> Substitution:
    """Parse s/RE/NEW/ or s/RE/NEW/g."""
    from irdeconv.runtime.rename import Substitution

    parts = re.split(rf"(?<!\\){re.escape(text[1])}", text) if len(text) > 1 else []
    if len(parts) != 4 or parts[0] != "s" or parts[3] not in _FLAGS:
        raise argparse.ArgumentTypeError(f'"{text}" is not of the form s/RE/NEW/ or s/RE/NEW/g')
    wanted, new = (part.replace(f"\\{text[1]}", text[1]) for part in parts[1:3])
    try:
        made = Substitution(re.compile(wanted), new, _FLAGS[parts[3]])
        re.compile(f"{wanted}|").sub(new, "")  # so that a group that is none is said now
    except (re.error, IndexError) as e:
        raise argparse.ArgumentTypeError(f'"{text}" is no regular expression: {e}') from None
    return made


VERB = Verb(
    r"""
    + MODEL
    [OLD=NEW ...]  an old name and its new one @dest names
    --pattern s/RE/NEW/ ...  replace the first match of a regular expression (Python's) in every
        name, all with s/RE/NEW/g; \1 is a group, any character may stand for the slash; may be
        repeated @dest patterns
    --only layers|tensors  which names --pattern applies to (default: both) @needs --pattern
    -o --output FILE  write the model here (.xml, .bin beside it) @writes model .xml @required
    + FORCE
    + FORMAT
    """,
    example=f"irdeconv rename {HEAD} image=picture -o renamed.xml",
    guide="extract",
    parsers={"patterns": substitution},
)


def run(args: argparse.Namespace, console: Console) -> Answer:
    """Rename, write, report."""
    from irdeconv.base.errors import misused
    from irdeconv.cli.model import inferred, read, write_model
    from irdeconv.runtime.rename import KINDS, rename

    if not (args.names or args.patterns):
        raise misused("nothing to rename: give OLD=NEW or --pattern s/OLD/NEW/")
    graph = inferred(read(args), ())
    wanted = [kind for kind in KINDS if args.only in (None, f"{kind}s")]
    done = rename(graph, _pairs(graph, args.names), args.patterns, wanted)
    write_model(done.graph, args, console)
    rows = [{"kind": c.kind, "old": c.old, "new": c.new} for c in done.changes]

    def text() -> None:
        kinds: dict[tuple[str, str], list[str]] = {}
        for c in done.changes:
            kinds.setdefault((c.old, c.new), []).append(c.kind)
        for (old, new), both in kinds.items():
            console.text(f"{' and '.join(both)} {old} -> {new}")
        console.text(f"{args.file}: {count(len(kinds), 'name')} changed")

    return Answer(lambda: {"file": args.file, "output": args.output, "renamed": rows}, text)


def _pairs(graph: Graph, texts: list[str]) -> dict[str, str]:
    """Split OLD=NEW; names may contain "=": the longest old name that the model has wins."""
    from irdeconv.base.errors import misused

    known = {n.name for n in graph.nodes()}
    known |= {t for n in graph.nodes() for names in n.tensor_names for t in names}
    out: dict[str, str] = {}
    for text in texts:
        cuts = [i for i, c in enumerate(text) if c == "="]
        if not cuts:
            raise misused(f'"{text}" is not of the form OLD=NEW')
        known_cuts = [i for i in cuts if {text[:i], text[:i].partition(":")[2]} & known]
        at = (known_cuts or cuts[:1])[-1]
        if text[:at] in out:
            raise misused(f'"{text[:at]}" is renamed twice')
        out[text[:at]] = text[at + 1 :]
    return out
