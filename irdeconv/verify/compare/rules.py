"""By which rule each operation's rounding is bounded: tables of operation types.

An operation without a row is bounded relative to its largest value ("scale").
"""

from __future__ import annotations

# Outputs are copies of input elements.
MOVES = frozenset(
    "Broadcast Concat DepthToSpace Gather GatherElements GatherND Identity MaxPool Maximum Pad "
    "ReduceMax ReLU Reshape Result Reverse ScatterElementsUpdate ScatterNDUpdate ScatterUpdate "
    "Select ShuffleChannels Slice SpaceToDepth Split Squeeze StridedSlice Tile Transpose Unsqueeze "
    "VariadicSplit ZeroInsertion".split()
)

# Exact as well, and an error of the input comes out no larger.
KEEPS = frozenset("Abs Clamp Negative".split())

# Exact, but a small change of an input may change the output by any amount.
STEPS = frozenset(
    "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceiling Equal Floor FloorMod Greater GreaterEqual "
    "IsFinite IsInf IsNaN Less LessEqual LogicalAnd LogicalNot LogicalOr LogicalXor Minimum Mod "
    "NonZero NotEqual OneHot ReduceLogicalAnd ReduceLogicalOr ReduceMin Round ShapeOf Sign "
    "TopK".split()
)

# Roundings of elementwise arithmetic, relative to the result. Divisions may be multiplications by
# the reciprocal.
ROUNDINGS = {
    "Add": 1,
    "Convert": 1,
    "ConvertLike": 1,
    "Divide": 3,
    "Multiply": 1,
    "PReLU": 1,
    "Sqrt": 2,
    "SquaredDifference": 3,
    "Subtract": 1,
}

# Sums of products, linear in each input: gamma_n times the same operation on absolute values.
SUMS = frozenset("AvgPool CumSum MatMul ReduceL1 ReduceMean ReduceSum".split())

# Functions of one element, to be had within a few units in the last place of result and argument.
FUNCTIONS = frozenset(
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Exp FakeQuantize Log Power Sin Sinh Tan Tanh".split()
)

# Functions made of several steps that may cancel: also relative to the argument, or to 1.
COMPOSITE = frozenset(
    "Elu Erf Gelu HSigmoid HSwish HardSigmoid Mish Selu Sigmoid SoftPlus SoftSign Swish".split()
)

SOFTMAX = frozenset("LogSoftmax SoftMax".split())
