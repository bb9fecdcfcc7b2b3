"""The records of the verbs."""

from __future__ import annotations

from irdeconv.base.form_names import AUTO
from irdeconv.cli.options import FORM_NAMES, FORM_WORDS, HEAD, JOIN, PASSED, SUMS, TASKS, Verb

RECORDS = {
    "lower": Verb(
        """use, proofs: rewrite deconvolutions as ordinary convolutions
Rewrite every deconvolution as ordinary convolutions, and report the result for each.

-o writes the new model as .xml and .bin, in standard operations that OpenVINO reads. --format ir
prints it in its text form, and the report goes to stderr; `inspect --lower --format ir` prints
large constants as well. --certify proves each new layer equal to the deconvolution, from the
files that -o has written. --report writes a page that shows the graph before and after.

If the input is an ONNX model and -o names an .onnx, only the ConvTranspose nodes are replaced, by
standard operations of the model's operation set (7 or later). If -o names an .xml, the model is
converted to an IR first. An ONNX model that a page cannot draw is lowered and written without the
page that --report names; a warning says so, and the exit code stays the same.

With --target every new layer meets the conditions of a device, or nothing is written.

Exit code 4: a deconvolution could not be lowered. 1: a layer is not proved, or the target cannot
execute the lowered form of a deconvolution. 7: a layer is proved for some sizes only, or under the
assumptions that are listed.
    + OPTIONAL_FILE WEIGHTS SEMANTICS FORM TARGET
    --explain-costs  show the cost of each form for each deconvolution, and why a form is refused
    --only PATTERN  lower only deconvolutions whose names match, such as 'decoder/*'
    --convolutions  also rewrite ordinary convolutions that the target cannot run as they are
        @needs --target
    --fuse  first fold batch normalization, scale and bias into the convolutions and deconvolutions
        beside them, as simplify does (writes an IR) @excludes --certify
        @why rounded weights have no proof: simplify --fuse first, and certify the lowering of that
    --best-effort  write the model even if layers violate conditions of the target, with warnings
        @needs --target
    --list-targets  list the packaged targets @excludes --format=json
    + SHAPE
    -o --output FILE  write the lowered IR here (.xml, .bin beside it), or the ONNX model (.onnx)
        @writes model .xml .onnx @any_onnx_without --fuse --origins --format=ir
    --origins  note in each new layer of the IR which layer it comes from: as fused_names in
        rt_info, which OpenVINO reads @needs -o
    = @needs -o --certify --report
    + FORCE
    =
    --certify [FILE]  prove every rewritten layer and show the certificates, or write them to FILE
        @const - @writes file
    + PROBE PYTHON WATCH
    --format text|json|ir  how the result is written (default: %(default)s) @default text
    --report FILE.html  write a page for a browser here that draws the graph before and after, with
        the replacement of each deconvolution @writes page .html""",
        no="with `--certify`: a layer is not proved; with `--target`: a condition is violated",
        example=f"irdeconv lower {HEAD} --form stacked -o lowered.xml --certify",
        guide="lowering",
        partly=True,
    ),
    "run": Verb(
        """use, running: run a model with NumPy
Run a model with NumPy, and show or save its outputs.

Inputs: x=@file.npy, x=@image.png, x=rand, randn, ones, zeros, arange, or an .npz or
.safetensors with all of them. 'x=rand(-1,1)' is between two numbers, both included for integers.
An input that is not given is rand: from 0 to 1, integers from 0 to 9. Images are resized to the
input, with values from 0 to 1 for floats and 0 to 255 for integers.
    + MODEL VALUES
    --threads N  threads that share the work (default: the number of processors); results do not
        depend on it @whole 1 1024
    + EXECUTION
    --exact  add the terms of (de)convolutions in one defined order: slower, and the same bits for
        every form @excludes --tune @why the order of --exact leaves no choice of kernels
    --trace  show which layers each executed step covers, its kernel and why (with --dump the layers
        are executed one by one)
    --outputs NAME ...  compute only this output, layer or tensor, also an inner one, and its
        sources; may be repeated
    --dump WHAT ...  also keep layers' outputs: all, a layer's or tensor's name, type:Convolution;
        may be repeated; they go to --dump-dir or into the .npz of -o as dump/NAME
        @needs --dump-dir -o
    --dump-dir DIR  folder of .npy files for --dump @needs --dump @writes folder
    --report FILE.html  write a page for a browser here that draws the graph with the values of each
        layer (the layers are executed one by one) @writes page .html
    -o --output FILE  write all outputs here: .npz, .safetensors, or .npy for a single one; -
        is stdout        @writes arrays
    = @needs -o --report
    + FORCE
    =
    + PYTHON WATCH FORMAT""",
        no="a layer failed while running",
        example="irdeconv run ir_samples/openvino/deconv_3x3_to_5x5.xml x=arange",
    ),
    "bench": Verb(
        """use, running: time a model and its steps, also in other runtimes
Measure how long a model takes: the network, each step with its kernel, other runtimes.

Inputs are given as for `run`. A table of steps shows the shortest time of each. Processor time is
the cost of the work, wall time its duration; the two differ on a machine that is busy.
    + MODEL VALUES
    --threads N  threads that share the work (default: the number of processors, 1 with runtimes of
        --against); results do not depend on it @whole 1 1024
    + EXECUTION
    --time SECONDS  how long each thing is measured (default: %(default)s) @real 0 86400
        @default 2.5
    --iterations N  stop each measurement after N runs, if --time is not over before
        @whole 1 1000000
    --rounds N  how often the runtimes take turns (default: %(default)s) @whole 1 100000 @default 5
    --warm-up N  runs before the first one that counts (default: %(default)s) @whole 0 1000000
        @default 1
    --requests N  also run N plans at once, for throughput and latency (default: %(default)s)
        @whole 1 256 @default 1
    --top N  steps to show (default: %(default)s) @whole 1 @default 20
    --against LIST  also run openvino,onnxruntime in the same rounds, one thread each (ONNX Runtime
        needs an .onnx, or an IR that is a single deconvolution); FILE.json is a file of --save
        @list @default
    --save FILE.json  keep the report for --against @writes file .json
    --fail-above PERCENT  exit code 1 if the network surely takes that much longer than in
        --against FILE.json: the 95 %% interval of the ratio of medians lies above it @real 0 10000
    --report FILE.html  write a page for a browser here that draws the graph that was run, with the
        time of each layer @writes page .html
    + FORCE_REPORT
    --histogram  show how often a run took how long
    + FORMAT""",
        no="a layer failed while running; with `--fail-above`: the model has become slower",
        example=f"irdeconv bench {HEAD}",
        guide="performance",
        differs=True,
    ),
    "batch": Verb(
        f"""use, batch: run a verb on many models, or on many inputs of one
Run a verb on many models, or on many inputs of one model, on several workers.

PATH is a model, a folder (all .xml, .onnx and .ird below it) or a pattern. Each item is done in a
process of a pool: one that fails, crashes, takes too long or too much memory gets its line in the
report, and the others go on. --jobs 0 does all in this process. With --scheduler or --cluster, Dask
spreads the items over machines (extra "distributed").

-o keeps the results of each item in a folder of its own: the verb's JSON document, models,
certificates, arrays. Results stand in the order of PATH, and the report has the same bytes with
any number of workers. --resume goes on after an interruption: finished items, with the same
files and options, are not done again.

--inputs runs one model on many files, or on parts of large ones (--rows). `batch join DIR... -o
FILE` puts their outputs together. --shard K/N does only a part of the items, as one of N machines.

In --against and in the options of the verb, {{file}}, {{folder}}, {{stem}} and {{item}}
stand for the model, its folder, its name without suffix, and the item's folder below -o.

Exit code: the worst of the items', in this order: 70 (also crashes), 2, 6, 3, 4, 5 (also time), 1,
7, 0.
    VERB  {", ".join(TASKS)} @choices {" ".join(TASKS)} @dest task
    PATH ...  models, folders, patterns; of join: the folders of -o of a batch run --inputs
    --inputs PATH ...  with run and one model: .npy, .npz, .safetensors or .zarr
        files, folders, patterns; each is
        an item, and its arrays are the inputs, by name or in order; may be repeated; with join:
        only the outputs of these, in this order @of run {JOIN}
    --rows N  with --inputs: cut each file along the first axis into items of N rows @whole 1
        @needs --inputs @of run
    --against WHERE  the other model for compare and check-certificate: a file name such as
        '{{folder}}/{{stem}}_lowered.xml', the folder of -o of a batch lower, or a runtime
        @of compare check-certificate
    = @of {" ".join(PASSED)}
    --jobs N  processes (default: as many as processors; for bench 1, because they share the
        processors); 0: all in this process, without limits @whole 0 4096
    --shard K/N  of all items, do only the K-th of N parts of equal size: 1/4, 2/4, 3/4, 4/4
        @shard
    --timeout SECONDS  the time that an item may take @real 0.001 @excludes --jobs=0
    --memory SIZE  the address space that an item may take beyond that of an idle process: 512M, 2G
        (Linux) @size @excludes --jobs=0
    --scheduler ADDRESS  a scheduler of Dask, such as tcp://host:8786 @excludes --cluster --jobs
    --cluster local  start a scheduler of Dask and --jobs workers here @excludes --jobs=0
    --retries N  how often an item is given to another worker of Dask when its worker dies or falls
        silent, before it counts as crashed (default: %(default)s) @whole 0 1000 @default 10
    =
    -o --output DIR  a folder for the items' results; of join: the .npz or .npy @dest folder
    = @of {" ".join(PASSED)}
    --report FILE ...  write the report here: .json, .junit (or .xml), .sarif, .html; may be
        repeated
    --resume  go on with the rows of the journal @needs -o --report --journal @excludes --force
    --force  begin anew, also if there are earlier results
    --journal FILE  keep finished items here (default: batch.journal in DIR, or beside the report)
    --all  list items that are well, too
    =
    + FORMAT""",
        no="the worst answer of an item is no",
        example="irdeconv batch validate ir_samples --jobs 2 --report report.html",
        guide="batch",
        partly=True,
        passes=True,
    ),
    "validate": Verb(
        """check, reports: report everything that is wrong with a model
Check models and report everything that is wrong with them, each problem with its place.

With --target each layer that the target cannot execute is an error (E420).

Exit code 0: no errors; there may be warnings. 1: there are errors.
    FILE ...  a model: .xml, .onnx, .json, .ird; - reads stdin
    --weights FILE  the .bin file of a single FILE @reads weights
    --strict  warnings count as errors
    + NO_WEIGHTS SEMANTICS SHAPE
    --target NAME|FILE.toml  report each layer that this target cannot execute: a packaged target
        (irdeconv lower --list-targets), or a file of your own
    + WATCH
    --format text|json|sarif|junit  how the result is written (default: %(default)s) @default text
    """,
        no="errors were found; with `--strict` also warnings",
        example="irdeconv validate ir_samples/broken/typos.xml",
    ),
    "infer": Verb(
        """check, reports: infer all shapes and compare them with the declared ones
Infer the element types and shapes of all layers, and compare them with those in the file.

"same": as declared. "refined": narrower than declared. "wider": more shapes are possible than
declared, so the declaration is not confirmed. For an operation that irdeconv does not know, the
declared shapes are taken ("declared"), unless they cannot be true for its inputs ("unknown").

-o writes the model with the inferred shapes. The exit code is 0 even if shapes differ from the
declared ones, because OpenVINO ignores these.
    + STRUCTURE SHAPE FILL
    --all  list constants as well
    -o --output FILE  write the IR with inferred shapes here (.xml, .bin beside it)
        @writes model .xml @excludes --no-weights @why the weights are part of the IR
    + FORCE PYTHON WATCH FORMAT""",
        example="irdeconv infer ir_samples/openvino/dynamic.xml --shape 'x[1,2,5,7]'",
    ),
    "check-certificate": Verb(
        """check, proofs: prove that a lowered model equals the original
Prove every rewritten layer of a lowered model equal to the original layer, for all data.

All other layers, the inputs and the outputs must be the same in both models. Declared shapes are
not believed: both models are read, and their shapes are inferred from the inputs. Two ONNX models
are imported first; they may be equal without a rewritten layer.

--certificate FILE: the certificates that `lower --certify` wrote must belong to these two files
and match the present proofs. --probe: both models are also evaluated on random data, modulo
random primes. --second: another checker reads both models by itself and compares, by isl, which
elements of data and filters meet. It agrees, differs, or does not apply, with the reason.

Exit code 0: proved for every size that the original allows, or for those of --sizes. 7: proved
for some sizes only, which are listed, or under assumptions on operations that irdeconv does not
know. 1: something is not proved, or there is nothing to prove.
    + MODEL
    LOWERED  the lowered model: .xml, .onnx @reads model
    --lowered-weights FILE  the lowered model's .bin @reads weights
    --certificate FILE  the certificates to check against the two models
    --probe  also evaluate both models on random data, modulo primes
    --seed N  repeat the probe that printed this seed (default: a fresh one) @whole 0
        @needs --probe
    --sizes NAME=DIMS ...  prove for exactly this shape of an input (repeatable), such as
        x=1,3,64,64
    --second  also compare both models by relations between elements, with isl (extra isl)
    + SHAPE FORMAT""",
        no="something is not proved, or there is nothing to prove",
        example=f"irdeconv lower {HEAD} -o lowered.xml\n"
        f"irdeconv check-certificate {HEAD} lowered.xml",
        guide="certificates",
        partly=True,
    ),
    "compare": Verb(
        """check, running: compare two models, or a model and a runtime, by layers
Run two models on the same inputs and compare every layer and output; exit code 1 if they differ.

OTHER is one of these:

  a model            .xml, .onnx, .json or .ird
  saved.npz          saved arrays, or .safetensors, as of `run --form none --dump all -o saved.npz`
  openvino           the same model in OpenVINO's CPU plugin
  openvino:FILE.xml  another model there
  onnxruntime        the same .onnx in ONNX Runtime; onnxruntime:FILE.onnx is another one

Without OTHER, the model is compared with its own lowering. FILE and OTHER may both be .npz: arrays
of the same name are compared, and must be equal without --tolerance.

Each layer is computed again from the other side's inputs, so an earlier error does not spread: "own
error" is that of the layer alone. "allowed" is how large it may be by rounding, with the rule: u is
the unit roundoff, gamma_n |W||x| bounds a sum of n terms, gamma~_n does if roundings of many terms
are independent. "carried" is the part of f16 and bf16 values that the other side may keep between
layers beyond the digits that it shows. Saved tensors may be sums in f16.
    + MODEL
    [OTHER]  a model, .npz, openvino, onnxruntime, or one of these with :FILE @reads model
    --other-weights FILE  the second model's .bin @reads weights
    + INPUT SEED SHAPE FORM TARGET
    --tolerance TOLERANCE ...  allowed difference relative to a tensor's largest value: 1e-3, or
        NAME=1e-3 for one output or layer; may be repeated (default: the bounds of rounding, layer
        by layer) @tolerance
    --peer-precision f32|bf16|int8  the precision OpenVINO may use: f32 (default), bf16, or int8:
        quantized layers as it executes them in use; the bounds grow with it
    --reduce DIR  write the first layer that differs here: both sides of it, its inputs and outputs,
        and report.json with the commands that show it @writes folder
    --report FILE.html  write a page for a browser here that draws both graphs, or the one, with the
        error of each layer @writes page .html
    + FORCE_REPORT
    --all  list layers that agree as well
    + PYTHON WATCH FORMAT""",
        no="the two sides differ",
        # Its sums have two terms, which every processor rounds alike.
        example=f"irdeconv lower {SUMS} -o lowered.xml\nirdeconv compare {SUMS} lowered.xml",
        guide="compare",
    ),
    "suite": Verb(
        f"""check, suite: make test vectors for hardware and compilers; judge results
Test vectors for hardware and compilers: make them, run them, judge the results.

  suite make DIR             write layers as IR, with inputs and expected outputs
  suite check DIR RESULTS    judge the results of a device; exit code 1 unless all pass
  suite run DIR --with PEER  run the layers in a runtime on this machine, and judge the results
  suite list [DIR]           list the cases that make would write, or those of a suite

RESULTS is a folder of CASE.npz or CASE.npy, or one .npz with CASE/y for every case. Each case has
model.xml (the layer in OpenVINO's operations, for every dialect), inputs.npz, constants.npz and
expected.npz. manifest.json has attributes, shapes, allowed differences with their rules, and known
differences of runtimes.
    ACTION  make, check, run, list @choices make check run list
    [DIR]  the folder of the suite
    [RESULTS]  check: a folder or an .npz @of check @why run has --with PEER and -o RESULTS
    = @group make and list @of make list
    --dialect LIST  openvino (default), onednn, onnx, ort-nhwc, tensorrt, or all @list @default
        @words openvino onednn onnx ort-nhwc tensorrt all
    --set LIST  quick (every value once), pairs (every pair of values), edges, networks, or full:
        all but quick (default) @list @default @words quick pairs edges networks full
    --only PATTERN ...  cases by name: '*-edge-*'
    --layers FILE.toml  layers of your own
    --full-size  layers of networks with all channels and elements
    = @group make @of make
    --data integers|floats  integers so small that results are exact (default), or floats with
        bounds @default integers
    --seed SEED  seed of the data (default: %(default)s) @whole 0 @default 0 @group
    --form FORM  also write each case lowered, as lowered.xml: {FORM_NAMES}, or {AUTO}
        @words {FORM_WORDS}
    --onnx  also write model.onnx of the cases of ONNX
    --max-size SIZE  refuse (exit code 5) to write more: 512M, 4G (default: 1G) @size
    --force  replace a suite, or the results of run @of make run
    = @group run and check @of run
    --with PEER  irdeconv, openvino, onnxruntime (needs --onnx) @dest peer
        @words irdeconv openvino onnxruntime
    --lowered  run: the lowered models @dest lowered_models
    -o --output RESULTS  run: keep the results here
    --all  list cases that pass as well @of run check
    =
    --format text|json|junit  how the result is written (default: %(default)s) @default text""",
        no="a case did not pass",
        example="irdeconv suite list --dialect onnx --set quick",
        guide="suite",
    ),
    "inspect": Verb(
        """debug, reports: list layers, shapes, parameters, multiply-accumulates
List layers: shapes, parameters, multiply-accumulates, sources and readers of data.

The text begins with a summary. Of a large graph it has the 20 layers with the most
multiply-accumulates; --all, --only, --sort and --constants list others.

A constant stands in the row of its reader: name, shape, number of elements or a few values. Readers
of an output are named unless they are just the next layer. `*` marks deconvolutions.

Formats beside text and json: dot (Graphviz), html (a page that draws the graph, for a browser), ir
(the text form of the graph), svg (a picture of the graph). With --lower text, json, html and svg
compare before and after; dot and ir show the lowered graph. dot and svg write constants into the
layers that read them, or as layers with --constants.

--operations needs no model: it lists OpenVINO's operations and irdeconv's support of each, as
text or json; --only chooses types.
    + OPTIONAL_FILE WEIGHTS NO_WEIGHTS SEMANTICS SHAPE FILL
    --lower  compare with the lowered graph, which dot and ir show
    = @needs --lower @why nothing is lowered without it
    + FORM
    = @excludes --format=dot|html|ir|svg @why it shows the whole graph
    --target NAME|FILE.toml  mark with ! the layers that this target cannot execute: a packaged
        target (irdeconv lower --list-targets), or a file of your own @reads file
    =
    --constants  list constants as well
    --all  list every layer, not only the 20 with the most multiply-accumulates and bytes
    = @excludes --format=dot|html|ir|svg @why it shows the whole graph
    --only TYPE|PATTERN ...  show only layers of this type, or whose name fits this pattern (*, ?,
        [a-z]); may be repeated
    --sort macs|bytes|params  show the layers with most multiply-accumulates, bytes or parameters
        first
    =
    --operations  list irdeconv's support of OpenVINO's operations: execution, inference, keeping
        @excludes FILE --lower --sort --shape --format=dot|html|ir|svg
    -o --output FILE  write the result here instead of stdout @writes text
    + FORCE WATCH
    --format text|json|dot|html|ir|svg  how the result is written (default: %(default)s)
        @default text""",
        example=f"irdeconv inspect {HEAD} --only 'up*'",
        guide="inspect",
    ),
    "explain": Verb(
        """debug, reports: show the arithmetic of a deconvolution in all systems
Explain deconvolutions: the output size term by term, the pads, a picture, the other systems.

Without LAYER, all deconvolutions are explained if there are only a few. Exit code 1: the system
that a layer belongs to would reject it.

--format svg draws every axis with its inserted zeros, pads, taps and phases, and how many taps
reach each output. With -o FILE.svg it goes into a file.
    + STRUCTURE
    [LAYER]  the name of a deconvolution
    --solve SIZE[,SIZE]  list attributes of the layer's dialect that give this output size (one for
        all axes, or one per axis), the smallest changes first @sizes
    + SHAPE FILL
    -o --output FILE  write the result here instead of stdout @writes text
    + FORCE
    --format text|json|svg  how the result is written (default: %(default)s) @default text""",
        no="the layer's own system refuses it",
        example="irdeconv explain ir_samples/openvino/deconv_3x3_to_5x5.xml",
        guide="dialects",
    ),
    "reduce": Verb(
        """debug, running: shrink a failing model to the layers that reproduce it
Reduce a failing model to the few layers, sizes and numbers that reproduce the failure.

--check 'COMMAND {}' runs a command of yours on ever smaller models, without a shell. {} becomes
the .xml (its .bin lies beside it), {inputs} an .npz of its inputs. Exit codes have the meaning of
`git bisect run`: 0 is good, 125 is undecided, any other code or a signal is the failure. Only the
failure that the whole model shows counts, or the one that --fails-with names.

Three checks are built in. --compare openvino or onnxruntime: that runtime computes other numbers
than irdeconv. --compare OTHER.xml: a second model, whose layers have the same names, computes other
numbers. --verb VERB: irdeconv itself fails.

-o FILE.xml gets the small model, with its .bin and an .npz of its inputs. With --compare OTHER.xml,
FILE_other.xml is the other side. Ctrl-C ends the search and keeps the smallest model so far.

-o FILE.onnx gets a piece of an ONNX model, with operations that irdeconv does not know, too. {} is
then an .onnx. Nodes stay the same byte for byte, so sizes, attributes and weights stay.
    + MODEL
    --check COMMAND  a command that fails on the model
    --compare OTHER  openvino, onnxruntime, or a second model @reads file
    --verb VERB  lower, raise, run or write raises an error
    --fails-with TEXT|CODE  the failure that counts: an exit code, a signal (SIGSEGV), timeout, any
        (any code but 0 and 125), or a text that the command prints @needs --check
    --other-weights FILE  the second model's .bin @reads weights
    + INPUT SEED SHAPE
    --tolerance TOLERANCE  of --compare: allowed difference relative to a tensor's largest value
        (default: the bounds of rounding) @real 0
    --timeout SECONDS  of one run of the command (default: %(default)g) @real 0.1 1e6 @default 300
    --max-checks N  stop after N checks @whole 1 1000000000
    --time SECONDS  stop after this time @real 0 1e9
    -o --output FILE  write the small model here: .xml, .bin and .npz, or the .onnx and .npz of an
        ONNX model @writes model .xml .onnx @required @any_onnx_without --compare --verb
    + FORCE FORMAT""",
        no="the check does not fail on the whole model",
        example=f"irdeconv reduce {HEAD} --check \"sh -c '! grep -q GroupConvolutionB {{}}'\" "
        "-o small.xml",
        guide="reduce",
        one_of="--check --compare --verb",
        one_required=True,
    ),
    "codes": Verb(
        """debug, about: explain a diagnostic code, and how to fix the problem
Explain diagnostic codes: meaning, cause, fix and an example.

Without CODE all codes are listed. CODE is one such as E302, or the beginning of several: E3 lists
those of inference, W all warnings.
    [CODE ...]  a code such as E302, or its beginning: E3, W
    + FORMAT""",
        example="irdeconv codes W3",
        guide="codes",
        models=False,
    ),
    "convert": Verb(
        """files, reports: convert ONNX, a oneDNN Graph dump or an old IR into an IR
Convert an ONNX model, a JSON dump of oneDNN Graph or an IR of version 2 to 7 into an IR.

The result (.xml and .bin) has version 11, which today's OpenVINO reads. Each deconvolution keeps
the meaning that it has in its own format, spelled in standard operations. If an operation is not
covered, all such operations are listed, the exit code is 4, and nothing is written.
    FILE  an .onnx, a .json dump, an old .xml; - reads stdin @reads model @formats onnx json
    --weights FILE  the .bin of an old IR, the one beside it by default; of a oneDNN dump an .npz by
        tensor id or name, other tensors without a producer become inputs; or random @reads weights
    --seed SEED  seed of random weights (default: %(default)s) @whole 0 @default 0
    + SHAPE SEMANTICS
    -o --output FILE  write the IR here (.xml, .bin beside it) @writes model .xml @required
    + FORCE FORMAT""",
        example="irdeconv convert ir_samples/onnx/upscaler.onnx -o upscaler.xml",
        guide="onnx",
    ),
    "extract": Verb(
        """files, editing: cut a piece out of a model, with its weights and inputs
Cut a piece out of a model and write it as a model of its own.

--from and --to name the start and the end of the piece. NAME is a layer or a tensor; layer:NAME and
tensor:NAME say which one, if both exist.

  --from LAYER       the layer is the first of the piece; its inputs become the piece's inputs
  --from TENSOR      the tensor becomes an input
  --from LAYER:PORT  so does this output of the layer
  --from PORT:LAYER  so does the tensor at this input of the layer

Constants come along. Any other tensor that the piece reads from outside becomes an input as well.

--save-inputs runs the whole model once and keeps the piece's input data, --inputs-from takes it
from saved arrays. The piece then runs alone with the same numbers:
irdeconv run PIECE.xml PIECE_inputs.npz.
    + MODEL
    --from NAME ...  the start of the piece (default: the model's inputs); may be repeated
        @dest begin
    --to NAME ...  its end: a tensor, or all outputs of a layer (default: the model's
        outputs); may be repeated @dest end
    --add-output NAME ...  one more output beside the model's own or those of --to; may be repeated
        @dest add
    + SHAPE
    --inputs-from FILE.npz  save the piece's inputs: taken from FILE if it has them (run
        --dump all -o FILE.npz makes one), or else computed from the model's inputs in FILE
        @excludes --input @reads file .npz .safetensors
    --save-inputs [FILE.npz]  save the piece's inputs, here (default: PIECE_inputs.npz beside
        -o), computed from --inputs-from or from --input @const - @writes file .npz .safetensors
    --run-in irdeconv|openvino|onnxruntime  the runtime of the whole model, which computes the
        piece's inputs (default: irdeconv); ONNX Runtime needs an .onnx
        @needs --save-inputs --inputs-from --input
    = @needs --save-inputs --inputs-from
    + INPUT
    =
    + SEED
    -o --output FILE  write the piece here (.xml, .bin beside it), of an ONNX model also as .onnx
        @writes model .xml .onnx @required @any_onnx_without --save-inputs --inputs-from
    + FORCE FORMAT""",
        no="with `--save-inputs`: a layer failed while running",
        example=f"irdeconv extract {HEAD} --from up1 --to up2 -o part.xml",
        guide="extract",
    ),
    "rename": Verb(
        r"""files, editing: give layers, inputs, outputs and other tensors new names
Give layers, inputs, outputs and other tensors of a model new names.

OLD=NEW renames the layer and the tensor that are called OLD. layer:OLD=NEW renames only the layer,
tensor:OLD=NEW only the tensor. The names by which programs ask for inputs and outputs are those of
tensors. All renaming happens at once, so two names may be exchanged. --pattern applies a regular
expression to all other names, as sed does. Layers in bodies keep their names.
    + MODEL
    [OLD=NEW ...]  an old name and its new one @dest names
    --pattern s/RE/NEW/ ...  replace the first match of a regular expression (Python's) in every
        name, all with s/RE/NEW/g; \1 is a group, any character may stand for the slash; may be
        repeated @dest patterns @substitution
    --only layers|tensors  which names --pattern applies to (default: both) @needs --pattern
    -o --output FILE  write the model here (.xml, .bin beside it), an ONNX model also as .onnx
        @writes model .xml .onnx @required @any_onnx_without
    + FORCE FORMAT""",
        example=f"irdeconv rename {HEAD} image=picture -o renamed.xml",
        guide="extract",
    ),
    "simplify": Verb(
        """files, editing: fold constants and drop unnecessary layers
Write the same model with fewer layers.

Values that depend only on constants, or follow from shapes, become constants. Layers that change
nothing, duplicates, and layers that no output needs are dropped. Pairs of Reshape, Transpose or
Convert are joined. Inputs, outputs, their names and order, variables and compressed weights stay.
--shape first gives the model exact input shapes, so that more can be folded.

Node by node, the results keep the same bits. --check runs the model before and after. If they
differ, the exit code is 1 and nothing is written.

--fuse rounds weights once, so it changes results a little; the report has a bound for each layer.
Only constants that are the same along all axes but the channels are folded, between layers that
nothing else reads. A bias in front of padding stays.
    + MODEL SHAPE
    --max-growth SIZE  fold no constant that takes more bytes than this beyond those it is computed
        of: 4096, 512K (default: 1M) @size @default 1M
    --decompress  fold the Convert of weights that are stored in fewer bits, too: f16 becomes f32
    --fuse  also fold batch normalization, scale and bias into the convolution, deconvolution or
        matrix product beside them
    --check irdeconv|openvino|onnxruntime  run the model before and after on the same inputs: in
        irdeconv the bits have to be the same, with --fuse each layer within the bound of its
        rounding; in OpenVINO and ONNX Runtime (which needs an .onnx) the numbers within 0.0001 of
        the output's largest
    = @needs --check
    + INPUT
    =
    + SEED
    -o --output FILE  write the simplified model here (.xml, .bin beside it), an ONNX model also as
        .onnx @writes model .xml .onnx
    + FORCE FORMAT""",
        no="with `--check`: the two models differ",
        example=f"irdeconv simplify {HEAD} -o small.xml",
        guide="extract",
    ),
    "raise": Verb(
        """files, proofs: turn decompositions back into one deconvolution
Turn decompositions of a deconvolution back into one deconvolution, and report each.

Three patterns are found: inserted zeros in front of a convolution; convolutions whose channels are
interleaved in space; data enlarged by repetition in front of a convolution. --only upsample also
finds a resize without a convolution. A pattern that is not proved equal to a deconvolution stays as
it is, and the report says why.

-o writes the new model (.xml and .bin). --format ir prints it in its text form, and the report goes
to stderr. --certify proves each new layer equal to the layers that it replaces.

Exit code 1: a layer is not proved. 7: a layer is proved for some sizes only, or under the
assumptions that are listed.
    + MODEL
    --only PATTERN ...  look for this pattern only (repeatable): zero-insertion, phases,
        depth-to-space, resize, upsample (the last one only if it is named)
        @words zero-insertion phases depth-to-space resize upsample
    + SHAPE
    -o --output FILE  write the raised IR here (.xml, .bin beside it), or the ONNX model (.onnx)
        @writes model .xml .onnx
    = @needs -o --certify
    + FORCE
    =
    --certify [FILE]  prove every raised layer and show the certificates, or write them to FILE
        @const - @writes file
    + PROBE
    --format text|json|ir  how the result is written (default: %(default)s) @default text""",
        no="with `--certify`: a layer is not proved",
        example=f"irdeconv lower {HEAD} --form stacked -o lowered.xml\n"
        "irdeconv raise lowered.xml -o raised.xml",
        guide="lowering",
        partly=True,
    ),
    "demo": Verb(
        """set up, demo: enlarge a picture with a lowered network
Enlarge a picture with a small network, and check the network without its deconvolutions.

The network enlarges pictures twofold and has two deconvolutions. The demo validates it, lowers it,
proves that both are equal, runs both on a picture and compares every layer. The picture that comes
with irdeconv is first made smaller, so the result can be measured: its PSNR has to be better than
that of bicubic interpolation. The enlarged picture, the lowered network and a page that shows both
networks are written into a folder.

--input takes your own picture, of at most 16,000,000 pixels. Each million takes some 5 s. A large
picture is enlarged in pieces by the lowered network; the other one checks a single piece.

With --samples the demo takes the packaged sample models instead: it validates, infers, lowers,
writes, reads back, runs and compares each. Those in `broken` have to be refused. An open dimension
is run with 8, or the nearest size that is allowed.

The exit code is 0 only if every step succeeds.
    [SAMPLE ...]  with --samples: the samples to take (default: all)
    -i --input FILE ...  the picture to enlarge: PNG, JPEG, WebP, GIF, TIFF, BMP or PPM; with
        --samples an input of theirs, NAME=VALUE as in run @dest inputs
    -o --output DIR  the folder to write into (default: irdeconv_demo); with --samples it gets the
        lowered IRs, and without -o nothing is kept
    --force  overwrite files that no demo has written
    --samples  take the sample models instead of a picture @dest all
    --list  list the samples and stop
    + FORM TARGET
    --seed SEED  seed of rand and randn, with --samples (default: %(default)s) @whole 0 @default 0
    + FORMAT""",
        no="a step did not give the expected result",
        example="irdeconv demo",
        differs=True,
        models=False,
    ),
    "doctor": Verb(
        """set up, about: show versions, and the abilities of this installation
Show the versions of all packages, the abilities of this installation and the profile of the
machine by which kernels are chosen; or the limits.

--warm compiles the kernels of the extra `fast` for this processor, or those that the given models
take, so that no first run waits for it. IRDECONV_FAST=0 in the environment does without them.
    --limits  show the limits for models instead: each with its name, which --limit takes
    --warm [MODEL ...]  compile the kernels of this processor, or only what these models take
    + FORMAT LIMIT""",
        no="a required package is missing or broken",
        example="irdeconv doctor",
        differs=True,
        models=False,
        one_of="--limits --warm",
    ),
    "completion": Verb(
        """set up, about: print a script for completion in bash, zsh or fish
Print a script with which a shell completes verbs, options, choices and files.

bash, in ~/.bashrc: eval "$(irdeconv completion bash)".
zsh: irdeconv completion zsh > "${fpath[1]}/_irdeconv".
fish: irdeconv completion fish > ~/.config/fish/completions/irdeconv.fish.
    SHELL  bash, zsh or fish @choices bash zsh fish
    + FORMAT""",
        example='eval "$(irdeconv completion bash)"',
        differs=True,
        models=False,
    ),
}
