"""Every diagnostic code: its title, and a hint for diagnostics without a better one."""

from __future__ import annotations

import re
from typing import NamedTuple


class Code(NamedTuple):
    """A diagnostic code: its general meaning and a general remedy."""

    title: str
    hint: str


# Groups with their titles. A code and its title, below it the hint (for E700 none in general).
_TABLE = """
# E1xx The input files
E100 the file cannot be read
     check the path and its permissions
E101 the file is not well-formed XML
     the file may be cut off or edited by hand; export the model again
E102 the document has a DOCTYPE or entities
     remove the DOCTYPE and write entities as plain text
E103 the document is not an IR (root element, version)
     convert the model again: OpenVINO writes <net> of version 11
E104 a mandatory element is missing
     compare with a file that OpenVINO wrote: <net> holds <layers> and <edges>
E105 a mandatory attribute is missing
     add it; nothing can stand in for its value
E106 an attribute's text is not a value of its type
     numbers are plain decimals, lists are separated by commas
E107 an attribute's value is outside its range
     offsets, sizes and dimensions are not negative
E108 an unexpected element
     merge the two elements, or delete one
E109 characters that no name may contain
     take the character out of the name
E110 the file is no IR but something else
     name the model's .xml
E120 the weights file is missing
     put the .bin beside the .xml, name it with --weights, or leave it out: --no-weights
E121 a constant lies outside the weights file
     the .bin is cut off or belongs to another .xml
E122 a constant's size does not fit its shape and element type
     size counts bytes: elements times bits, rounded up to whole bytes
E123 a packed string constant is malformed
     a string constant is a count, count + 1 offsets (i32 each) and UTF-8 bytes
E124 the weights file is not the one that the .xml was written with
     write both files again; if the .bin is meant, name it with --weights
E125 a file was changed while it was in use
     replace files by renaming others onto them; run the command again
# E2xx The graph
E200 two layers share an id
     give each layer an id of its own and correct the edges
E201 two ports of a layer share an id
     number the ports of a layer 0, 1, ...: inputs first, then outputs
E202 an edge names a layer or port that does not exist
     an edge goes from an output port to an input port, by layer id and port id
E203 an input port has two producers
     delete one of the two edges
E204 a required input has no producer
     add an <edge> to this port, or delete the port if it is optional
E205 the graph has a cycle
     delete an edge of the cycle; repetition is spelled Loop or TensorIterator
E206 unknown operation type
     an operation of an extension is known only if the extension is loaded
E207 the operation is not in this operation set
     write the operation set that has the operation in version=
E208 the number of ports does not fit the operation
     the operation's specification lists its ports
E209 the graph has no outputs
     end the model in at least one Result
E210 an attribute value that the operation does not allow
     the operation's specification lists the values that are allowed
E211 a port map or body is inconsistent
     port maps join ports of the layer with Parameters and Results of the body
E212 unknown element type
     element types are f32, f16, i64, ...; ports spell them FP32, FP16, I64, ...
E213 a dimension is malformed
     a dimension is 3, or open: -1, ?, 3..9
E214 the operation set is unknown
     OpenVINO's operation sets are opset1, opset2, ...
E215 a variable is assigned or read inconsistently
     each variable has one ReadValue and one Assign
E220 a structural invariant of the graph is broken
     the graph was changed by hand: each input port needs one producer, without cycles
# E3xx Inference
E300 inputs do not fit the operation
     compare the inputs with the operation's specification
E301 rank does not fit
     insert or remove axes in front of the layer: Unsqueeze, Squeeze, Reshape
E302 dimensions do not fit
     one of the inputs comes from the wrong layer or has the wrong size
E303 element types do not fit
     insert a Convert in front of the input that differs
E304 an attribute does not fit the inputs
     change the attribute, or the input whose shape it does not fit
E305 an input's value does not fit the operation
     correct the constant, or the layers that compute the value
E306 the output would have a negative or empty size
     the window does not fit the padded data: check kernel, dilations, pads, input size
E310 an input shape override does not fit
     give a size for each dimension, as in [1,3,64,64]; ? and 1..16 leave one open
# E4xx Lowering
E400 the deconvolution cannot be lowered in this form
     validate reports why the layer is not understood
E401 an operation outside the lowered language remains
     this is a bug of irdeconv: please report it with the model
E402 the operation has no spelling in standard operations
     lower the graph first, or keep it in the text form: dump and parse
E421 no lowering of the layer meets the conditions of the target
     --best-effort writes the model all the same; another target may have more operations
E420 the target cannot execute a layer
     irdeconv lower --target lowers for the target; or change the model or the target
# E5xx Execution and comparison
E500 a layer failed while running
     --dump all keeps the results of the layers before this one
E501 an input does not fit the model
     inspect lists the inputs with their shapes and element types
E502 the operation cannot be executed
     validate, infer and lower work without it; only running needs it
E503 a layer or tensor is unknown
     inspect lists the names of all layers
E504 the results differ
     begin at the first layer that differs; --dump keeps its values
E505 saved arrays cannot be compared with the model
     irdeconv run MODEL --form none --dump all -o FILE.npz saves all layers under their names
E506 a peer for comparison refuses the model
     validate reports the parts that a runtime refuses
E507 there is no such piece to cut out
     inspect lists the layers in their order
E508 a new name cannot be given
     choose a name that nothing else has
E509 there is nothing to reduce
     the check has to fail on the model itself
E520 a package that is not required is missing or broken
     irdeconv doctor lists the packages that are there, and what they add
# E6xx Limits
E600 the file is larger than the limit
     if you trust the file, allow more with --limit NAME=N
E601 the document has more elements than the limit
     if you trust the file, allow more with --limit NAME=N
E602 a tensor would be larger than the limit
     check the sizes of inputs and attributes, or use smaller inputs
E603 the document is nested deeper than the limit
     if you trust the file, allow more with --limit NAME=N
E610 an item of a batch took too long
     allow more with --timeout, or look at the model by itself
# E7xx Usage, output, the text form
E700 the command line does not fit
E701 the output cannot be written
     check the folder, its permissions and the free space
E702 the text form cannot be parsed
     dump prints the text form of a graph
E710 the process of an item ended without an answer
     run the same verb on this model alone; if it lacked memory, run fewer --jobs
# W1xx Warnings: the input files
W100 an attribute that OpenVINO ignores
     delete it, or correct its name
W101 an attribute that the specification requires is missing
     write the value down, so that every reader takes the same
W102 an element that OpenVINO ignores
     delete it, or correct its name
W103 a value is spelled unusually
     write it as OpenVINO does, so that every reader understands it
W120 the weights were left out
     without --no-weights (weights=False) they are read
W121 bytes of the weights file are not used by any constant
     the .bin may belong to another .xml
# W2xx Warnings: the graph
W200 two layers share a name
     give each layer a name of its own: tools find layers by name
W201 a layer that no result needs
     delete the layer, or connect it
W202 a declared shape differs from the inferred one
     infer -o writes the inferred shapes
W203 a declared element type differs from the inferred one
     infer -o writes the inferred element types
W204 an operation that irdeconv does not know in detail
     check its declared shapes: everything behind it relies on them
W205 a model input is not used
     delete the input, or connect it
W206 two tensors share a name
     give each tensor names of its own: programs ask for tensors by name
W207 a declared shape that does not hold of the inputs
     give the operation a definition (--extension), or keep the shapes that the file declares
# W3xx Warnings: the model's meaning
W300 the document and the runtime compute different numbers
     choose with semantics="runtime" or semantics="document"
W301 an unusual but legal attribute value
     check that the value is meant
W302 an empty or zero-sized output
     check the pads and output_shape: no element is computed
W303 a layer that a runtime is known to compute wrongly or to refuse
     lower the layer, or spell it another way
W304 a shape that follows from numbers that runtimes compute differently
     compute sizes from integers, or put the numbers into constants
# W4xx Warnings: lowering
W400 a body contains deconvolutions that stay as they are
     OpenVINO still needs its deconvolution for the body
W401 values that the lowering would spread
     run with --form none, or repair the weights
W402 a lowered layer that the target cannot run
     the model was written on request (--best-effort); --explain-costs shows all forms
# W5xx Warnings: comparison
W500 saved arrays that belong to no tensor of the model
     inspect lists the names of all layers; a name that two layers share belongs to neither
W501 a saved array's element type is not the layer's
     values are compared as numbers; save them in the layer's element type
W502 layers that a peer could not show
     their results are judged together with the next layer that it shows
W503 an input of equal elements or with NaN, with which wrong layers may compute right values
     leave -i out, or give NAME=randn, for random data
"""
CODES = {
    code: Code(title, hint or "")
    for code, title, hint in re.findall(r"^(\w{4}) (.+)(?:\n {5}(.+))?$", _TABLE, re.MULTILINE)
}
GROUPS: dict[str, str] = dict(re.findall(r"^# (\w\d)xx (.+)$", _TABLE, re.MULTILINE))
