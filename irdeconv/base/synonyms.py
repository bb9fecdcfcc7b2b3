"""Names of verbs, options and functions in other tools, with the name or the answer here."""

from __future__ import annotations


def _table(text: str) -> dict[str, list[str]]:
    """Return the answers by each name; a line has answers, separated by ` | `, and names."""
    lines = (line.strip().rpartition(": ") for line in text.strip().split("\n"))
    return {name: left.split(" | ") for left, _, names in lines for name in names.split()}


VERBS = {
    name: answers[0]
    for name, answers in _table("""
    bench: benchmark latency perf profile speed time timeit
    check-certificate: certify prove verify proof
    codes: code error errors warnings
    demo: example examples tutorial
    doctor: env info-system install setup
    extract: crop cut slice split subgraph
    validate: check lint test
    compare: accuracy diff eval
    run: exec execute forward predict start
    convert: export import mo onnx2ir ovc
    inspect: draw graph info list open print show summary view visualize
    raise: lift unlower
    reduce: bisect minimize shrink
    simplify: clean fold optimize
    infer: shape shapes
    lower: legalize rewrite transform
    suite: vectors
    lower --list-targets: --list-targets devices list-targets profiles targets
    doctor: --info
    --version: version -v
    --help: -? /? commands man usage verbs
    """).items()
}
# Answers to an option that a verb lacks: the first of its options that the verb has, or a sentence.
OPTIONS = _table("""
    --shape: b batch batch-size dims image-size img-size input-shape input-shapes size sizes
    --threads | --jobs: cores cpus j nthreads num-threads
    --jobs | --threads: n-jobs num-workers parallel processes workers
    --iterations | --rounds: count iters loops n num-runs repeat repeats runs
    --warm-up: w warmups
    --tolerance: abs-tol atol delta eps epsilon max-diff rel-tol rtol threshold tol
    --output | the answer is printed, > FILE keeps it: O dest dst o out out-dir outdir outfile \
output output-dir output-file save save-as save-to
    --format json: csv json xml yaml
    --target | irdeconv computes with NumPy on the processor: cpu cuda device gpu
    --target: chip hardware hw legalize platform
    --only: filter include layer layers match name names node nodes op ops
    --sort: order sort-by
    --against | write OTHER without an option: backend compare-with peer reference runtime versus
    --other-weights | --lowered-weights: weights2
    --outputs | --to: fetch output-name output-names output-nodes
    --input: data feed image in input-file inputs
    --from: begin first start
    --to: end last stop until
    --debug: stacktrace traceback verbose
    --force: f overwrite y yes
    --form | --only: form method mode pattern strategy
    --fill: default-dim dynamic-size
    --timeout: max-time
    --time: duration seconds
    --seed: random-seed rng
    --report: html page
    --check: cmd command exec script
    irdeconv bench FILE prints times and throughput: benchmark fps perf profile time timing
    element types stay, change them where the model was made: amp bf16 dtype fp16 fp32 half \
int8 precision quantize
    an ONNX model keeps its operation set, onnx.version_converter changes it: opset opset-version
    arrays are used as they are, prepare them with NumPy: channel-order layout mean \
normalize normalise scale std
""")
