"""Records of the verbs around models: suites, batches, explanations, this installation."""

from __future__ import annotations

from irdeconv.cli.options import FORM_WORDS, Verb

ALL = "--weights --semantics --shape --extension --limit"
EXECUTED = f"{ALL} --fill --input --seed --form --threads --no-fuse --max-memory"
# Options for many models at once; the others belong to a single model, or to the batch.
PASSED = {
    "validate": f"{ALL} --strict --no-weights",
    "infer": f"{ALL} --fill --no-weights",
    "lower": f"{ALL} --form --target --explain-costs --certify",
    "run": f"{EXECUTED} --exact --outputs --dump",
    "compare": f"{ALL} --fill --input --seed --form --target --tolerance --peer-precision",
    "check-certificate": f"{ALL} --certificate --probe --seed --sizes --second",
    "convert": f"{ALL} --seed",
    "simplify": f"{ALL} --max-growth --decompress --fuse --check --fill --input --seed",
    "inspect": f"{ALL} --fill --no-weights --lower --form --target --only --sort",
    "explain": f"{ALL} --fill --no-weights --solve",
    "bench": f"{EXECUTED} --time --iterations --rounds --warm-up --requests",
}
MADE = {  # the file that a verb writes into -o
    "infer": "inferred.xml",
    "lower": "lowered{suffix}",
    "run": "outputs.npz",
    "convert": "converted.xml",
    "simplify": "simplified{suffix}",
}
JOIN = "join"
TASKS = (*PASSED, JOIN)
RECORDS = {
    "suite": Verb(
        f"""
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
    [RESULTS]  check: a folder or an .npz @of check
    = @group make and list @of make list
    --dialect LIST  openvino (default), onednn, onnx, ort-nhwc, tensorrt, or all @list @default
    --set LIST  quick (every value once), pairs (every pair of values), edges, networks, or full:
        all but quick (default) @list @default
    --only PATTERN ...  cases by name: '*-edge-*'
    --layers FILE.toml  layers of your own
    --full-size  layers of networks with all channels and elements
    = @group make @of make
    --data integers|floats  integers so small that results are exact (default), or floats with
        bounds @default integers
    --seed SEED  seed of the data (default: %(default)s) @whole 0 @default 0 @group
    --form FORM  also write each case lowered, as lowered.xml: {FORM_WORDS.replace(" ", ", ")}
        @words {FORM_WORDS}
    --onnx  also write model.onnx of the cases of ONNX
    --max-size SIZE  refuse (exit code 5) to write more: 512M, 4G (default: 1G) @size
    --force  replace a suite, or the results of run @of make run
    = @group run and check @of run
    --with PEER  irdeconv, openvino, onnxruntime (needs --onnx) @dest peer
    --lowered  run: the lowered models @dest lowered_models
    -o --output RESULTS  run: keep the results here
    --all  list cases that pass as well @of run check
    =
    --format text|json|junit  how the result is written (default: %(default)s) @default text""",
        no="a case did not pass",
        example="irdeconv suite list --dialect onnx --set quick",
        guide="suite",
    ),
    "batch": Verb(
        f"""
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
    "codes": Verb(
        """
Explain diagnostic codes: meaning, cause, fix and an example.

Without CODE all codes are listed. CODE is one such as E302, or the beginning of several: E3 lists
those of inference, W all warnings.
    [CODE ...]  a code such as E302, or its beginning: E3, W
    + FORMAT""",
        example="irdeconv codes W3",
        guide="codes",
        models=False,
    ),
    "demo": Verb(
        """
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
    + FORM
    + TARGET
    --seed SEED  seed of rand and randn, with --samples (default: %(default)s) @whole 0 @default 0
    + FORMAT""",
        no="a step did not give the expected result",
        example="irdeconv demo",
        differs=True,
        models=False,
    ),
    "completion": Verb(
        """
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
    "doctor": Verb(
        """
Show the versions of all packages, the abilities of this installation and the profile of the
machine by which kernels are chosen; or the limits.

--calibrate measures the machine, in a few seconds if it is idle, and keeps the numbers in a folder
that only the user may write to; from then on kernels are chosen by them. IRDECONV_CALIBRATED=0 in
the environment ignores them.

--warm compiles the kernels of the extra `fast` for this processor, or those that the given models
take, so that no first run waits for it. IRDECONV_FAST=0 in the environment does without them.
    --limits  show the limits for models instead: each with its name, which --limit takes
    --calibrate  measure how fast this machine is, for the choice of kernels, and show the numbers
        beside those of the packaged profile
    --warm [MODEL ...]  compile the kernels of this processor, or only what these models take
    + FORMAT
    + LIMIT""",
        no="a required package is missing or broken",
        example="irdeconv doctor",
        differs=True,
        models=False,
        one_of="--limits --calibrate --warm",
    ),
}
