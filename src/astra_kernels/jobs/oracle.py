"""What the outputs should be: the most precise answer that the reference can give.

In this order: `reference_fp64` if the module defines it; `run` on float64 inputs if every floating
output stays float64; `run` as it is, which then only supports a tolerance, not an error ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_kernels.errors import UserError
from astra_kernels.jobs.elements import as_float64, numpy_dtype
from astra_kernels.jobs.inputs import Inputs, shape_of
from astra_kernels.jobs.reference import Reference, outputs_by_name
from astra_kernels.jobs.spec import JobSpec, WorkloadSpec
from astra_kernels.records.dtypes import is_floating

FP64 = "reference_fp64"
ON_FLOAT64 = "reference on float64 inputs"
AS_IT_IS = "reference as it is"


@dataclass(frozen=True)
class Expected:
    """The wanted outputs of one workload: float64 arrays for floats, the exact type otherwise."""

    outputs: Mapping[str, np.ndarray]
    oracle: str

    @property
    def precise(self) -> bool:
        """Whether errors against it may be compared with the baseline's."""
        return self.oracle in (FP64, ON_FLOAT64)


class Oracle:
    """Answers of one reference, remembered by workload for the length of a job."""

    def __init__(self, spec: JobSpec, reference: Reference, path: Path) -> None:
        self._spec = spec
        self._reference = reference
        self._path = path
        self._answers: dict[str, Expected] = {}

    def expected(self, workload: WorkloadSpec, inputs: Inputs) -> Expected:
        """The wanted outputs for `inputs`, which are not changed.

        Raises:
            UserError: the reference raises or returns something that does not fit the definition.
        """
        if workload.uuid not in self._answers:
            self._answers[workload.uuid] = self._ask(workload, inputs)
        return self._answers[workload.uuid]

    def forget(self, workload: WorkloadSpec) -> None:
        """Gives the memory of an answer back."""
        self._answers.pop(workload.uuid, None)

    def _ask(self, workload: WorkloadSpec, inputs: Inputs) -> Expected:
        if self._reference.has("reference_fp64"):
            return Expected(self._run("reference_fp64", workload, inputs, widen=True), FP64)
        try:
            wide = self._run("run", workload, inputs, widen=True)
        except UserError:
            wide = {}
        floats = [o.name for o in self._spec.outputs if is_floating(o.dtype)]
        if wide and all(wide[name].dtype == np.float64 for name in floats):
            return Expected(self._converted(wide), ON_FLOAT64)
        plain = self._run("run", workload, inputs, widen=False)
        return Expected(self._converted(plain), AS_IT_IS)

    def _run(
        self, function: str, workload: WorkloadSpec, inputs: Inputs, *, widen: bool
    ) -> dict[str, np.ndarray]:
        arguments = [_argument(value, widen) for value in inputs.values()]
        returned = self._reference.call(function, arguments)
        names = [o.name for o in self._spec.outputs]
        found = {
            name: self._reference.to_numpy(value)
            for name, value in outputs_by_name(returned, names, self._path).items()
        }
        for output in self._spec.outputs:
            shape = shape_of(output, workload.axes)
            if found[output.name].shape != shape:
                raise UserError(
                    f"{self._path.name}: {function} returned {output.name!r} of shape "
                    f"{found[output.name].shape}, the definition wants {shape}"
                )
        return self._converted(found) if function == "reference_fp64" else found

    def _converted(self, found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Floats widened to float64; integers and booleans in the output's own type."""
        return {
            o.name: as_float64(found[o.name])
            if is_floating(o.dtype)
            else found[o.name].astype(numpy_dtype(o.dtype))
            for o in self._spec.outputs
        }


def _argument(value: np.ndarray | bool | int | float, widen: bool) -> object:
    if not isinstance(value, np.ndarray):
        return value
    if widen and (
        value.dtype.kind == "f" or value.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    ):
        return as_float64(value)
    return value.copy()
