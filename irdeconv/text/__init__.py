"""The text form of a graph: a line per node, made for reading, diffs, tests and bug reports.

    graph 1 "net" <ir_version = 11> {
      %0 "x" = opset1.Parameter() {shape = [1, 3, 8, 8], element_type = f32} : f32[1,3,8,8]
      %1 "y" = opset1.Relu(%0) : f32[1,3,8,8] <declared = [f32[1,3,8,8]]>
      %2 "out" = opset1.Result(%1) : f32[1,3,8,8]
    }

`%5#1` is the second output of node 5. Behind the colon are the inferred specs, in `<...>` what the
file declared and carries besides. `parse(dump(g))` gives the same graph, bit for bit.
"""

from irdeconv.text.parser import parse
from irdeconv.text.printer import dump

__all__ = ["dump", "parse"]
