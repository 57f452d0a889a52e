"""The baseline as its own oracle, for problems that have no reference: its outputs are the wanted ones.

Every answer is a call of the baseline in a child of its own, with other random bytes where outputs go than
the judged call found, so that an element that is never written is not taken for a right one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from astra_kernels.errors import ProblemError
from astra_kernels.jobs.claims import call_report
from astra_kernels.jobs.elements import as_float64, numpy_dtype
from astra_kernels.jobs.inputs import shape_of
from astra_kernels.jobs.judge import values_of
from astra_kernels.jobs.memory import mapped
from astra_kernels.jobs.oracle import Expected
from astra_kernels.jobs.programs import Workshop, sound_baseline
from astra_kernels.jobs.spec import JobSpec
from astra_kernels.jobs.supervise import Setting, run_child
from astra_kernels.jobs.wire import Event, Program, Request
from astra_kernels.records.dtypes import is_floating

if TYPE_CHECKING:
    from astra_kernels.devices.device import CallReport
    from astra_kernels.jobs.prepare import Bench, Prepared

OWN = "the baseline's own outputs"


class OwnOracle:
    """Answers with what the baseline computes."""

    def __init__(self, spec: JobSpec, shop: Workshop) -> None:
        self._spec, self._shop = spec, shop
        self._program: Program | None = None

    def expected(self, bench: Bench, prepared: Prepared) -> Expected:
        """The baseline's outputs for the inputs of `prepared`.

        Raises:
            ProblemError: the baseline does not build, or the call fails.
            MachineFault: the machine failed.
        """
        again = bench.again(prepared)
        result = again.new_result()
        reports: list[CallReport] = []

        def heard(event: Event, arrived: float) -> bool:
            del arrived
            if event.kind == "failed":
                raise ProblemError(f"the baseline cannot be loaded: {event.detail}")
            if event.kind == "done":
                reports.append(call_report(event.data))
            return True

        request = Request(
            task="check",
            device=self._spec.device,
            cuda_runtime=str(self._shop.cuda_runtime),
            programs=(self._built(),),
            calls=(again.call((result,)),),
        )
        try:
            with bench.device_in_use():
                finished = run_child(request, Setting(self._spec.limits.correctness_s), heard)
            if not reports or reports[0].fault is not None or reports[0].code:
                ending = finished.ending
                raise ProblemError(
                    _trouble(prepared, reports, "" if ending is None else ending.detail)
                )
            return self._outputs(again, result)
        finally:
            os.close(result)
            again.close()

    def _outputs(self, prepared: Prepared, result: int) -> Expected:
        found = {}
        after = mapped(result)
        for output in self._spec.outputs:
            buffer = prepared.layout.carrier(output)
            shape = shape_of(output, prepared.workload.axes)
            raw = after[buffer.offset : buffer.offset + buffer.size]
            values = values_of(raw, output, shape).copy()
            found[output.name] = (
                as_float64(values)
                if is_floating(output.dtype)
                else values.astype(numpy_dtype(output.dtype))
            )
        return Expected(found, OWN)

    def _built(self) -> Program:
        if self._program is None:
            built = sound_baseline(self._shop.build(self._spec.baseline))
            self._program = self._shop.wired(built, self._spec.baseline)
        return self._program


def _trouble(prepared: Prepared, reports: list[CallReport], ending: str) -> str:
    said = ending
    if reports:
        fault = reports[0].fault
        said = reports[0].message if fault is None else fault.message
        said = said or f"it returned {reports[0].code}"
    return f"the baseline, which is its own reference, fails on workload {prepared.workload.uuid}: {said}"
