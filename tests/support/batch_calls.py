"""What the processes of test_batch.py do: well, badly, not at all."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np


def row(text: str) -> dict[str, Any]:
    return {
        "status": "yes",
        "exit_code": 0,
        "summary": text,
        "result": None,
        "diagnostics": [],
        "files": [],
    }


def call(payload: dict[str, Any]) -> dict[str, Any]:
    how = payload["how"]
    if how == "crash":
        os.kill(os.getpid(), 9)
    if how == "exit":
        os._exit(3)
    if how == "hang":
        time.sleep(1000)
    if how == "print":
        print("this is no answer")
        os.write(1, b"{}\n")
    if how == "fork" and os.fork() == 0:
        time.sleep(0.2)  # the copy goes on when the answer is out
    if how == "orphan":  # dies while its copy lives on, with its pipes
        if os.fork():
            os._exit(5)
        time.sleep(1000)
    if how == "nonsense":
        return {"no": "row"}
    if how == "memory":
        try:
            np.ones(payload["bytes"], np.uint8)
        except MemoryError:
            return {**row("refused"), "exit_code": 5, "last": True}
    if how == "mark":  # leaves a file for each time that it is called
        Path(payload["folder"], f"{payload['name']}-{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(payload.get("seconds", 0))
    return row(f"{how} in {os.getpid()}" if how == "who" else how)
