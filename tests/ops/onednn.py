"""oneDNN Graph's ConvTranspose through the library of the package onednn-cpu-gomp, f32.

`run` hands a list of layers to a child process and returns an array or the reason of a refusal for
each. The library ends the process on much bad input, so the child forks a worker, and another one
from the next layer on whenever a worker dies.

The numbers of enumerators are those of oneDNN 3.2's header dnnl_graph_types.h.
"""

import ctypes
import os
import pickle
import resource
import subprocess
import sys
from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_void_p
from importlib import metadata
from typing import Any

import numpy as np

PACKAGE = "onednn-cpu-gomp"
Job = tuple[list[Any], dict[str, Any]]  # data, weights, perhaps bias; attributes of the operation
Answer = Any  # an array, or a text where the library refuses

CONV_TRANSPOSE = 16
STATUS = {
    2: "invalid arguments",
    3: "unimplemented",
    7: "invalid graph",
    8: "invalid operation",
    9: "invalid shape",
    10: "invalid data type",
}
# Attributes by their enumerator; integers first, then texts.
INTEGERS = {
    "groups": 0x32,
    "dilations": 0x41,
    "output_padding": 0x45,
    "pads_begin": 0x46,
    "pads_end": 0x47,
    "strides": 0x4B,
}
TEXTS = {"auto_pad": 0x81, "data_format": 0x83, "weights_format": 0x87}
MAX_DIMS, UNKNOWN_RANK = 12, -1
CPU, F32, STRIDED, IN_ORDER, FUSION = 1, 3, 2, 1, 1


class Tensor(ctypes.Structure):
    """dnnl_graph_logical_tensor_t; the last field is a union of strides and a layout's number."""

    _fields_ = (
        ("id", c_size_t),
        ("ndims", c_int),
        ("dims", c_int64 * MAX_DIMS),
        ("data_type", c_int),
        ("property", c_int),
        ("layout_type", c_int),
        ("strides", c_int64 * MAX_DIMS),
    )


class Refused(Exception):
    """The library does not compute the layer."""


def library() -> str:
    """Return the path of the shared library; PackageNotFoundError where it is not installed."""
    files = metadata.distribution(PACKAGE).files or []
    return str(next(f for f in files if f.name.startswith("libdnnl.so")).locate())


class Library:
    """The calls that one operation takes, from its creation to its output."""

    def __init__(self) -> None:
        self.dll = ctypes.CDLL(library())
        self.engine = self.make("dnnl_engine_create", c_int(CPU), c_size_t(0))
        self.stream = self.make("dnnl_stream_create", self.engine, c_int(IN_ORDER))

    def call(self, function: str, *arguments: Any) -> None:
        status = getattr(self.dll, function)(*arguments)
        if status:
            raise Refused(f"{function}: {STATUS.get(status, f'status {status}')}")

    def make(self, function: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self.call(function, byref(made), *arguments)
        return made

    def operation(self, attributes: dict[str, Any]) -> c_void_p:
        op = self.make("dnnl_graph_op_create", c_size_t(0), c_int(CONV_TRANSPOSE), b"deconv")
        for name, number in TEXTS.items():
            if name in attributes:
                text = attributes[name].encode()
                self.call("dnnl_graph_op_set_attr_str", op, c_int(number), text, c_size_t(1))
        for name, number in INTEGERS.items():
            if name in attributes:
                values = np.atleast_1d(np.array(attributes[name], np.int64))
                at = values.ctypes.data_as(POINTER(c_int64))
                self.call(
                    "dnnl_graph_op_set_attr_s64", op, c_int(number), at, c_size_t(values.size)
                )
        return op

    def tensor(self, ident: int, shape: tuple[int, ...] | None) -> Tensor:
        made, kind = Tensor(), (c_int(F32), c_int(STRIDED), c_int(0))
        if shape is None:
            self.call(
                "dnnl_graph_logical_tensor_init",
                byref(made), c_size_t(ident), kind[0], c_int(UNKNOWN_RANK), *kind[1:],
            )  # fmt: skip
        else:
            sizes = (c_int64 * MAX_DIMS)(*shape)
            self.call(
                "dnnl_graph_logical_tensor_init_with_dims",
                byref(made), c_size_t(ident), kind[0], c_int(len(shape)), sizes, *kind[1:],
            )  # fmt: skip
        return made

    def partition(self, op: c_void_p, inputs: list[Tensor], output: Tensor) -> c_void_p:
        """Put the operation into a graph and return the graph's only partition."""
        for tensor in inputs:
            self.call("dnnl_graph_op_add_input", op, byref(tensor))
        self.call("dnnl_graph_op_add_output", op, byref(output))
        graph = self.make("dnnl_graph_graph_create", c_int(CPU))
        self.call("dnnl_graph_add_op", graph, op)
        self.call("dnnl_graph_graph_finalize", graph)
        self.call("dnnl_graph_graph_filter", graph, c_int(FUSION))
        found = (c_void_p * 1)()
        self.call("dnnl_graph_graph_get_partitions", graph, c_size_t(1), found)
        partition, supported = c_void_p(found[0]), ctypes.c_uint8()
        self.call("dnnl_graph_partition_is_supported", partition, byref(supported))
        if not supported.value:
            raise Refused("no partition supports it")
        return partition

    def run(self, arrays: list[Any], attributes: dict[str, Any]) -> Any:
        """Compute one layer."""
        arrays = [np.ascontiguousarray(a, np.float32) for a in arrays]
        inputs = [self.tensor(i, a.shape) for i, a in enumerate(arrays)]
        output = self.tensor(len(arrays), None)
        partition = self.partition(self.operation(attributes), inputs, output)
        compiled = self.make("dnnl_graph_compiled_partition_create", partition)
        count = c_size_t(len(arrays))
        ins = (POINTER(Tensor) * len(arrays))(*map(ctypes.pointer, inputs))
        outs = (POINTER(Tensor) * 1)(ctypes.pointer(output))
        self.call(
            "dnnl_graph_partition_compile", partition, compiled, count, ins, c_size_t(1), outs,
            self.engine,
        )  # fmt: skip
        made = Tensor()
        self.call(
            "dnnl_graph_compiled_partition_query_logical_tensor",
            compiled, c_size_t(output.id), byref(made),
        )  # fmt: skip
        shape = made.dims[: made.ndims]
        if min(shape) < 1:
            raise Refused(f"its output has shape {shape}")
        y = np.full(shape, np.nan, np.float32)
        held = [
            self.make("dnnl_graph_tensor_create", byref(t), self.engine, c_void_p(a.ctypes.data))
            for t, a in zip([*inputs, made], [*arrays, y], strict=True)
        ]
        self.call(
            "dnnl_graph_compiled_partition_execute", compiled, self.stream, count,
            (c_void_p * len(arrays))(*held[:-1]), c_size_t(1), (c_void_p * 1)(held[-1]),
        )  # fmt: skip
        self.call("dnnl_stream_wait", self.stream)
        return y


def run(jobs: list[Job]) -> list[Answer]:
    """Compute many layers in a child process."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=pickle.dumps(jobs),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    answers: list[Answer] = pickle.loads(done.stdout)
    assert len(answers) == len(jobs)
    return answers


def _work(jobs: list[Job], sink: int) -> None:
    """Answer jobs through a pipe until one of them ends the process."""
    made = Library()
    with os.fdopen(sink, "wb") as out:
        for arrays, attributes in jobs:
            try:
                answer = made.run(arrays, attributes)
            except Refused as e:
                answer = str(e)
            pickle.dump(answer, out)
            out.flush()


def _answers(jobs: list[Job]) -> list[Answer]:
    answers: list[Answer] = []
    while len(answers) < len(jobs):
        source, sink = os.pipe()
        worker = os.fork()
        if worker == 0:
            os.close(source)
            _work(jobs[len(answers) :], sink)
            os._exit(0)
        os.close(sink)
        with os.fdopen(source, "rb") as answered:
            try:
                while True:
                    answers.append(pickle.load(answered))
            except (EOFError, pickle.UnpicklingError):
                _, status = os.waitpid(worker, 0)
        if len(answers) < len(jobs):
            answers.append(f"the process ended ({os.waitstatus_to_exitcode(status)})")
    return answers


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its aborts are expected
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        pickle.dump(_answers(pickle.load(sys.stdin.buffer)), out)
