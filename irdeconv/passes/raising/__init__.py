"""Raising: decompositions of a deconvolution become one deconvolution again."""

from irdeconv.passes.raising.raise_deconv import raise_deconvolutions as raise_deconvolutions
from irdeconv.passes.raising.records import PATTERNS as PATTERNS
from irdeconv.passes.raising.records import Raised as Raised
from irdeconv.passes.raising.records import RaisedLayer as RaisedLayer
from irdeconv.passes.raising.records import RaisingReport as RaisingReport
