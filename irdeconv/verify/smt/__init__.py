"""A second checker: the obligation of a layer as SMT-LIB 2, discharged by a solver."""

from __future__ import annotations

from irdeconv.verify.smt.formula import obligation
from irdeconv.verify.smt.solver import Discharge, discharge, prove

__all__ = ["Discharge", "discharge", "obligation", "prove"]
