"""Importers: models of other formats become graphs that keep their layers' semantics."""
