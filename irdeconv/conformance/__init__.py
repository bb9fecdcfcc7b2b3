"""Conformance vectors: layers, inputs, expected outputs, and the judge of a device's results.

(`irdeconv.suite` is the public function, so the folder has another name.)
"""
