"""Editing graphs by hand: pieces cut out, names changed, what is superfluous taken away."""

from irdeconv.editing.extract import extract as extract
from irdeconv.editing.rename import rename as rename
