"""Answers of the second checker on graphs."""

from pathlib import Path

from irdeconv.formats.xml_writer import ir_bytes
from irdeconv.ir.graph import Graph
from irdeconv.rewrite.standardize import standardize
from irdeconv.verify.second_check import AGREES, DIFFERS, NOT_APPLICABLE, SecondAnswer, second_check
from irdeconv.verify.second_reading import SecondModel, Unfollowed


def second_answer(source: Graph, lowered: Graph) -> tuple[str, str]:
    """Return the verdict on both models as they are written, and the reason."""
    models = SecondModel(*ir_bytes(source)), SecondModel(*ir_bytes(standardize(lowered)))
    return _joined(second_check(*models, facts=None))


def second_of_files(original: Path, lowered: Path) -> tuple[str, str]:
    """Return the same of two IRs, with the facts of OpenVINO."""
    try:
        models = [SecondModel(p.read_bytes(), _weights(p)) for p in (original, lowered)]
        return _joined(second_check(*models))
    except Unfollowed as e:
        return NOT_APPLICABLE, str(e)


def _weights(path: Path) -> bytes:
    held = path.with_suffix(".bin")
    return held.read_bytes() if held.exists() else b""


def _joined(made: list[SecondAnswer]) -> tuple[str, str]:
    verdicts = [one.verdict for one in made]
    found = next((v for v in (DIFFERS, NOT_APPLICABLE) if v in verdicts), AGREES)
    return found, "; ".join(map(str, made))
