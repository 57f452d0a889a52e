"""FlashInfer-Bench's data model as far as exports need it (flashinfer_bench.data of flashinfer-bench 0.1.2)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from astra_kernels.records.base import Record

Status = Literal[
    "PASSED",
    "INCORRECT_SHAPE",
    "INCORRECT_NUMERICAL",
    "INCORRECT_DTYPE",
    "RUNTIME_ERROR",
    "COMPILE_ERROR",
    "TIMEOUT",
]
JsonObject = dict[str, bool | int | float | str | None]
"""One of several kinds of object, by its field `type`."""


class BenchTensor(Record):
    """A tensor, or a scalar where `shape` is None."""

    shape: tuple[str, ...] | None
    dtype: str
    description: str | None = None


class BenchDefinition(Record):
    """What is computed; the reference takes and returns torch tensors."""

    name: str
    op_type: str
    description: str | None = None
    tags: tuple[str, ...] = ()
    axes: dict[str, JsonObject]
    inputs: dict[str, BenchTensor]
    outputs: dict[str, BenchTensor]
    constraints: tuple[str, ...] = ()
    reference: str


class BenchSource(Record):
    """One source file."""

    path: str
    content: str = Field(min_length=1)


class BenchSpec(Record):
    """How a solution is built and called."""

    language: Literal["cuda"]
    target_hardware: tuple[str, ...] = Field(min_length=1)
    entry_point: str
    dependencies: tuple[str, ...] = ()
    destination_passing_style: bool
    binding: Literal["tvm-ffi", "torch"]


class BenchSolution(Record):
    """One implementation."""

    name: str
    definition: str
    author: str
    description: str
    spec: BenchSpec
    sources: tuple[BenchSource, ...] = Field(min_length=1)


class BenchWorkload(Record):
    """One set of sizes, and where the inputs come from."""

    uuid: str
    axes: dict[str, int]
    inputs: dict[str, JsonObject]


class BenchCorrectness(Record):
    """Errors of one workload; infinities and NaN are strings in its JSON, as FlashInfer-Bench writes them."""

    model_config = ConfigDict(ser_json_inf_nan="strings")

    max_relative_error: float
    max_absolute_error: float
    extra: JsonObject | None = None


class BenchPerformance(Record):
    """Measured times of one workload."""

    latency_ms: float = Field(ge=0)
    reference_latency_ms: float = Field(ge=0)
    speedup_factor: float = Field(ge=0)


class BenchEnvironment(Record):
    """Where it ran."""

    hardware: str
    libs: dict[str, str]


class BenchEvaluation(Record):
    """What came of a solution on a workload."""

    status: Status
    environment: BenchEnvironment
    timestamp: str
    log: str
    correctness: BenchCorrectness | None = None
    performance: BenchPerformance | None = None

    @property
    def complete(self) -> bool:
        """Whether it is one in FlashInfer-Bench's sense: what passed has a latency."""
        return self.status != "PASSED" or self.performance is not None

    @model_validator(mode="after")
    def _fields_of_status(self) -> Self:
        wanted = self.status in ("PASSED", "INCORRECT_NUMERICAL")
        if wanted != (self.correctness is not None):
            raise ValueError(f"{self.status} and correctness do not go together")
        if self.performance is not None and self.status != "PASSED":
            raise ValueError(f"{self.status} and performance do not go together")
        return self


class BenchTrace(Record):
    """A workload, and what came of a solution on it, if that is known."""

    definition: str
    workload: BenchWorkload
    solution: str | None = None
    evaluation: BenchEvaluation | None = None
