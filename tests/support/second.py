"""Answers of the second checker on graphs."""

from __future__ import annotations

from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify.second_check import AGREES, DIFFERS, NOT_APPLICABLE, second_check
from irdeconv.verify.second_reading import SecondModel


def second_answer(source: Graph, lowered: Graph) -> tuple[str, str]:
    """Return the verdict on both models as they are written, and the reason."""
    models = SecondModel(*ir_bytes(source)), SecondModel(*ir_bytes(standardize(lowered)))
    made = second_check(*models, facts=None)
    text = "; ".join(map(str, made))
    verdicts = [one.verdict for one in made]
    if DIFFERS in verdicts:
        return DIFFERS, text
    return (NOT_APPLICABLE if NOT_APPLICABLE in verdicts else AGREES), text
