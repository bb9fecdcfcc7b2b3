"""The pages are true: every file, folder and name of the package that they mention exists."""

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irdeconv as ird
import irdeconv.formats.onnx_reader
from irdeconv.cli.verbs import VERBS, verb_parser
from irdeconv.formats.onnx_node import RULES
from support.commands import answer, command
from support.rows import each_row
from support.schemas import require_schema, schemas, validator

ROOT = Path(__file__).resolve().parents[2]
PAGES = [str(p.relative_to(ROOT)) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
PACKAGE = ROOT / "irdeconv"
# The first part of a path: a folder of the checkout or of the package.
FOLDERS = {p.name for base in (ROOT, PACKAGE) for p in base.iterdir() if p.is_dir()}
MODULES = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
SOURCES = {
    p.name for folder in (".ci", "irdeconv", "tests", "tools") for p in (ROOT / folder).rglob("*")
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
BLOCK = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?<![\w./<>-])\.?\w[\w.*-]*/[^\s,;:()|]*")
DOTTED = re.compile(r"(?<![\w./-])([a-z]\w*(?:\.\w+)+)(?![\w/(-])")
FILES = (".py", ".npz", ".xml", ".bin", ".onnx", ".json", ".toml")  # names of files, not of modules


def code(page: str) -> Iterator[str]:
    """Yield the texts set as code; listings in a language are examples, drawings are not."""
    text = (ROOT / page).read_text("utf-8")
    yield from (b for b in BLOCK.findall(text) if b.startswith("```\n"))
    yield from SPAN.findall(BLOCK.sub("", text))


def paths(page: str) -> set[str]:
    found = {m[0] for text in code(page) for m in PATH.finditer(text)}
    return {p for p in found if p.split("/")[0] in FOLDERS and not re.search("[<{]", p)}


def exists(path: str) -> bool:
    """Whether a path, or a pattern of paths, is of the checkout or of the package.

    The names of JSON documents look like paths: irdeconv/bench/1.
    """
    plain = path.rstrip("/")
    if any(f'"const": "{plain}"' in p.read_text() for p in (ROOT / "docs/schemas").glob("*.json")):
        return True
    return any(next(base.glob(plain), None) is not None for base in (ROOT, PACKAGE))


def names(page: str) -> set[str]:
    """Return dotted names that begin with the package or one of its modules."""
    found = {m[1] for text in code(page) for m in DOTTED.finditer(text)}
    known = {n for n in found if n.split(".")[0] in {"irdeconv", *MODULES}}
    return {n for n in known if not n.endswith(FILES)}


def is_name(name: str) -> bool:
    """Whether a dotted name is a module of the package, or something in one."""
    parts = name.removeprefix("irdeconv.").split(".")
    for count in range(len(parts), -1, -1):
        try:
            thing = import_module(".".join(["irdeconv", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            thing = getattr(thing, part, None)  # type: ignore[assignment]
        return thing is not None
    return False


def links(page: str) -> list[str]:
    """Return the targets of links that stay in the checkout."""
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    return [t for t in LINK.findall(text) if "://" not in t]


def anchors(text: str) -> set[str]:
    """Return the anchors of headings, as code hosts name them."""
    heads = (re.sub(r"[`*]|\]\(.*?\)|\[", "", h) for h in HEADING.findall(BLOCK.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def leads(page: str, target: str) -> bool:
    """Whether a link of a page leads to a file and, where it names one, to a heading in it."""
    path, _, anchor = target.partition("#")
    to = (ROOT / page).parent / path if path else ROOT / page
    return to.exists() and (not anchor or anchor in anchors(to.read_text("utf-8")))


@each_row("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    assert [t for t in links(page) if not leads(page, t)] == []


@each_row("page", PAGES)
def test_every_page_stands_in_a_list(page: str) -> None:
    """docs/index.md lists all pages; those of a folder follow the page of its name."""
    path = ROOT / page
    above = path.parent.with_suffix(".md")
    listed = {(ROOT / "docs" / t).resolve() for t in links("docs/index.md")}
    assert page == "docs/index.md" or path in listed or above in listed


@each_row("page", PAGES)
def test_paths_exist(page: str) -> None:
    assert sorted(p for p in paths(page) if not exists(p)) == []


@each_row("page", PAGES)
def test_files_named_without_their_folder_exist(page: str) -> None:
    found = {n for text in code(page) for n in re.findall(r"(?<![\w./*<>-])[a-z_]\w*\.py\b", text)}
    assert sorted(found - SOURCES) == []


@each_row("page", PAGES)
def test_names_of_the_package_exist(page: str) -> None:
    assert sorted(n for n in names(page) if not is_name(n)) == []


def test_the_pages_are_searched() -> None:
    assert len([p for page in PAGES for p in paths(page)]) > 40
    assert "irdeconv/__init__.py" in paths("CONTRIBUTING.md")
    assert "proof.steps._settled" in names("docs/proof.md")


def test_anchors_are_those_of_code_hosts() -> None:
    assert anchors("# A `b` c\n\n## What's next?\n") == {"a-b-c", "whats-next"}
    assert leads("README.md", "docs/proof.md")
    assert not leads("README.md", "docs/proof.md#nothing")


def test_what_does_not_exist_is_found() -> None:
    assert not exists("rewrite/nothing.py")
    assert not exists("tests/nothing*.py")
    assert exists("tests/kernels/test_deconv*.py")
    assert not is_name("rewrite.nothing")
    assert not is_name("irdeconv.nothing")
    assert is_name("rewrite.forms.FORMS")


# docs/comparison.md says of irdeconv is tested; the other tools were measured once.


PAGE = (Path(__file__).resolve().parents[2] / "docs/comparison.md").read_text("utf-8")
# What is wrong with a ConvTranspose of x f32[1, 8, 6, 6] and a filter f32[8, 4, 3, 3].
MISTAKES: dict[str, dict[str, Any]] = {
    "filter for other channels": {"filter": (6, 4, 3, 3)},
    "channels not divisible by group": {"group": 3},
    "filter of another rank": {"filter": (8, 4, 3)},
    "kernel_shape unlike the filter": {"kernel_shape": [5, 5]},
    "too few pads": {"pads": [1, 1]},
    "too few strides": {"strides": [2]},
    "pads together with auto_pad": {"auto_pad": "SAME_UPPER", "pads": [1, 1, 1, 1]},
    "an auto_pad that does not exist": {"auto_pad": "SAME"},
    "a dilation of 0": {"dilations": [0, 1]},
    "output_padding as large as the stride": {"output_padding": [1, 1]},
    "pads that leave nothing": {"pads": [4, 4, 4, 4]},
    "a bias of another length": {"bias": 7},
    "a filter of another type": {"dtype": np.float64},
    "an attribute with a typing error": {"stride": [2, 2]},
}


def faulty(
    filter: tuple[int, ...] = (8, 4, 3, 3), bias: int = 4, dtype: type = np.float32, **more: Any
) -> Any:
    """A model with one ConvTranspose; the sizes of its output are left open."""
    from onnx import helper

    from support.onnx_models import info, model

    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **more)
    constants = {"w": np.ones(filter, dtype), "b": np.ones(bias, np.float32)}
    ends = [info("x", (1, 8, 6, 6))], [info("y", ("n", "c", "h", "w"))]
    return model([node], *ends, constants, opset=13)


@pytest.mark.oracles
def test_the_mistakes_of_the_page_are_found() -> None:
    pytest.importorskip("onnx")
    assert not ird.validate(faulty())
    for title, mistake in MISTAKES.items():
        assert re.search(rf"^{re.escape(title)} .* found$", PAGE, re.M), title
        assert ird.validate(faulty(**mistake)), title
    assert f"found of {len(MISTAKES)}" in PAGE


def test_every_lowered_layer_of_the_page_is_right() -> None:
    lines = re.findall(r"^irdeconv, .*?  +(\d+)(.*)$", PAGE, re.M)
    totals = [int(n) for n in re.findall(r"^.* \((\d+)\) +right", PAGE, re.M)]
    assert [int(n) for n, _ in lines] == [n for n in totals for _ in range(len(lines) // 3)]
    assert all(not rest.strip() for _, rest in lines)


# docs/onnx.md lists what the importer reads.


ONNX_DOCS = (Path(__file__).resolve().parents[2] / "docs/onnx.md").read_text("utf-8")


def listed(mark: str) -> list[str]:
    """Return the names behind a mark, in order."""
    found = ONNX_DOCS.partition(f"<!-- operations: {mark} -->")[2].partition("<!--")[0]
    return [word.strip(" .\n") for word in found.split(",")]


def test_the_page_lists_the_operations_of_microsoft() -> None:
    assert listed("com.microsoft") == sorted(t for d, t in RULES if d == "com.microsoft")


def test_the_page_lists_those_of_the_other_domains() -> None:
    said = ONNX_DOCS.rpartition("<!--")[2]
    others = {(d, t) for d, t in RULES if d not in ("", "com.microsoft")}
    assert all(f"`{d}`" in said and t in said for d, t in others)


def test_the_page_lists_what_is_refused_of_the_standard() -> None:
    defs = pytest.importorskip("onnx.defs")
    every = [s for s in defs.get_all_schemas_with_history() if s.domain == ""]
    defined = {s.name for s in every if s.has_function or s.has_context_dependent_function}
    refused = {s.name for s in every} - defined - {t for d, t in RULES if not d}
    assert listed("refused") == sorted(refused)
    old = {
        (s.name, s.since_version)
        for s in every
        if ("", s.name) in RULES and s.name not in defined and not s.deprecated
        if s.since_version not in RULES["", s.name].versions
    }
    assert old == {("Scan", 8), ("Split", 1), ("Tile", 1), ("Upsample", 1)}


# JSON documents: tests/conftest.py holds all that are printed against their schemas.


HEAD = "ir_samples/openvino/segmentation_head.xml"


@pytest.mark.parametrize("name", schemas())
def test_a_schema_is_one(name: str) -> None:
    validator(name).check_schema(schemas()[name])
    assert schemas()[name]["$id"] == f"{name}.json"


def test_every_verb_has_one() -> None:
    with_json = {
        verb
        for verb in VERBS
        if any("json" in (a.choices or ()) for a in verb_parser(verb)._actions)
    }
    assert with_json - schemas().keys() == set()


@pytest.mark.parametrize(
    "words",
    [
        ("validate", HEAD, "ir_samples/broken/typos.xml"),
        ("infer", "ir_samples/openvino/dynamic.xml"),
        ("inspect", HEAD, "--lower"),
        ("inspect", "--operations", "--only", "Loop"),
        ("explain", "ir_samples/openvino/deconv_3x3_to_5x5.xml", "--solve", "6"),
        ("explain", "ir_samples/broken/wrong_channels.xml"),
        ("compare", HEAD, "--form", "phases"),
        ("codes", "E302"),
        ("validate", "nothing.xml"),
    ],
    ids=" ".join,
)
def test_documents(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command(*words, "--format", "json")
    document = json.loads(capsys.readouterr().out)
    require_schema(document)
    for key in document:  # and what lacks a key, or has one too many, is refused
        if key != "schema":
            with pytest.raises(AssertionError):
                require_schema({k: v for k, v in document.items() if k != key} | {"odd": 1})


def test_outputs_without_finite_numbers(tmp_path: Path) -> None:
    data = tmp_path / "nan.npy"
    np.save(data, np.full((1, 1, 3, 3), np.nan, np.float32))
    model = "ir_samples/openvino/deconv_3x3_to_5x5.xml"
    document = answer("run", model, f"@{data}", "--format", "json").json
    require_schema(document)
    [output] = document["outputs"].values()
    assert output["min"] is output["max"] is output["mean"] is None
    assert output["non_finite"] > 0
    assert command("run", model, f"@{data}") == 0


def test_files(tmp_path: Path) -> None:
    lowered, proof = tmp_path / "lowered.xml", tmp_path / "proof.json"
    command("lower", HEAD, "--form", "stacked", "-o", lowered, "--certify", proof)
    suite = ird.suite(tmp_path / "suite", only=["openvino-edge-kernel-1"])
    outputs, piece = tmp_path / "outputs.npz", tmp_path / "piece"
    command("run", HEAD, "-o", outputs)
    with np.load(outputs) as arrays:
        np.savez(outputs, **{name: array + 1 for name, array in arrays.items()})
    assert command("compare", HEAD, outputs, "--reduce", piece) == 1
    for path in (proof, suite.folder / "manifest.json", piece / "report.json"):
        require_schema(json.loads(path.read_text()))
