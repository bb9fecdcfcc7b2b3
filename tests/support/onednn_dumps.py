"""Dumps of oneDNN Graph, as JSON has them."""

from typing import Any


def tensor(ident: int, shape: Any, dtype: str = "f32", kind: str = "undef") -> dict[str, Any]:
    return {
        "id": ident, "dtype": dtype, "shape": list(shape), "stride": [],
        "layout_type": "strided", "property_type": kind,
    }  # fmt: skip


def attribute(value: Any) -> dict[str, Any]:
    kinds = {bool: "bool", int: "s64", float: "f32", str: "string", list: "s64[]"}
    return {"type": kinds[type(value)], "value": value}


def op(kind: str, inputs: Any, outputs: Any, **attributes: Any) -> dict[str, Any]:
    """An operation, which has the number of its first output."""
    first = outputs[0]["id"]
    return {
        "id": 100 + first, "name": f"{kind}_{first}", "kind": kind,
        "attrs": {k: attribute(v) for k, v in attributes.items()},
        "inputs": list(inputs), "outputs": list(outputs),
    }  # fmt: skip


def content(*ops: dict[str, Any], version: str = "3.4.0", **more: Any) -> dict[str, Any]:
    made = {"version": version, "engine_kind": "cpu", "fpmath_mode": "strict", "graph": list(ops)}
    return made | more
