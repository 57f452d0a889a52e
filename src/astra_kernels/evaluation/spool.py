"""Runs jobs elsewhere: they are written to a spool, and their results are awaited there."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from astra_kernels import __version__
from astra_kernels.errors import MachineFault, UserError
from astra_kernels.evaluation.hosted import Answer, Pulse
from astra_kernels.evaluation.stage import JobRequest, stage_job
from astra_kernels.jobs.sealed import NotWhole
from astra_kernels.jobs.spool import ATTEMPTS, Manifest, Result, Spool
from astra_kernels.protocols import FreshSeed
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.problem import Problem
from astra_kernels.records.run import JudgedEvaluation

_RESULT: TypeAdapter[Evaluation] = TypeAdapter(
    JudgedEvaluation, config=ConfigDict(defer_build=True)
)
POLL_S = 0.5


@dataclass(frozen=True)
class Patience:
    """How results are awaited."""

    say: Callable[[str], None]
    """Tells the user what is awaited, and what is wrong in the spool."""
    most_s: float | None = None
    """Seconds to wait for one result before giving up; None waits for ever."""
    poll_s: float = POLL_S
    pulse: Pulse | None = None


class SpoolHost:
    """Writes jobs of one problem to a spool.

    A job's name follows from what is asked, so that a run that resumes finds the jobs it has written, with the seeds that
    were drawn for them. The same question asked again in one session is another job.
    """

    def __init__(self, problem: Problem, data_root: Path, spool: Spool, patience: Patience) -> None:
        self.spool = spool
        self.patience = patience
        self.open: dict[str, None] = {}
        """Names of jobs that were submitted and are not collected, in their order."""
        self._problem = problem
        self._data_root = data_root
        self._asked: Counter[str] = Counter()
        self._said: set[str] = set()
        self._awaited = ""

    def submit(self, request: JobRequest) -> SpooledJob:
        """Write a job, unless the spool has it.

        Raises:
            MachineFault: the disk is full or cannot be written.
            UserError: the job is there, but not whole.
        """
        question = _question(self._problem, request)
        self._asked[question] += 1
        again = self._asked[question]
        name = _name(request, question if again == 1 else f"{question}#{again}")
        try:
            manifest = self._written(name, request)
        except NotWhole as trouble:
            raise UserError(
                f"{self.spool.directory}: {trouble}; finish copying it, or remove {self.spool.job(name)}"
                " to have it written again"
            ) from None
        self.open[manifest.name] = None
        return SpooledJob(self, manifest)

    def _written(self, first: str, request: JobRequest) -> Manifest:
        """The job's manifest.

        One that came to nothing in an earlier session, by machine faults or because a worker could not use it, is
        written anew under another name: the worker may have been mended since.
        """
        name, number = first, 1
        while True:
            try:
                manifest = self.spool.manifest(name)
            except FileNotFoundError:
                return self._write(name, request)
            result = self.result(manifest)
            if result is None and len(self.spool.faults(manifest)) < ATTEMPTS:
                return manifest
            if result is not None and result.evaluation is not None:
                return manifest
            number += 1
            name = f"{first}-{number}"

    def _write(self, name: str, request: JobRequest) -> Manifest:
        manifest = Manifest(
            name=name,
            device=request.device,
            seed=int(request.seed),
            hidden_seed=request.hidden_seed,
            written=datetime.now(UTC).isoformat(timespec="milliseconds"),
            sizes={},
            sha256={},
        )

        def stage(directory: Path) -> None:
            stage_job(self._problem, self._data_root, request, directory)

        return self.spool.add(manifest, stage)

    def result(self, manifest: Manifest) -> Result | None:
        """What answers a job; what is there and does not is reported."""
        try:
            return self.spool.result(manifest)
        except NotWhole as trouble:
            self.say(str(trouble))
            return None

    def say_awaited(self) -> None:
        """Tell the user what is waited for, when that has changed."""
        directory = self.spool.directory
        text = f"waiting for {self.awaited()} in {directory} (astra worker --spool {directory})"
        if text != self._awaited:
            self._awaited = text
            self.patience.say(text)

    def awaited(self) -> str:
        """How many jobs are waited for."""
        return f"{len(self.open)} jobs" if len(self.open) > 1 else "1 job"

    def say(self, text: str) -> None:
        """Tell the user, once."""
        if text not in self._said:
            self._said.add(text)
            self.patience.say(text)


@dataclass(frozen=True)
class SpooledJob:
    """A job that lies in a spool."""

    host: SpoolHost
    manifest: Manifest

    def collect(self) -> Answer:
        """Wait for its result.

        Raises:
            MachineFault: machines failed on it too often, or nobody answered in time; the spool keeps the job.
            UserError: the job cannot be run as asked, or its result is of another version.
        """
        result = self._awaited()
        self.host.open.pop(self.manifest.name, None)
        if result.evaluation is None:
            raise UserError(result.refusal)
        if result.astra_version != __version__:
            self.host.say(f"answered by Astra {result.astra_version}; this is {__version__}")
        try:
            evaluation = _RESULT.validate_json(json.dumps(result.evaluation))
        except ValidationError as error:
            raise UserError(
                f"{self.host.spool.directory}: result {self.manifest.name}.json, of Astra {result.astra_version}, "
                f"cannot be read: {error.errors()[0]['msg']}; use the same version on both machines"
            ) from None
        return Answer(evaluation, self.manifest.seed, self.manifest.hidden_seed)

    def _awaited(self) -> Result:
        host, began = self.host, time.monotonic()
        patience, directory = host.patience, host.spool.directory
        while (result := host.result(self.manifest)) is None:
            faults = host.spool.faults(self.manifest)
            if len(faults) >= ATTEMPTS:
                raise MachineFault(
                    f"job {self.manifest.name}: machines failed {len(faults)} times, last: {faults[-1].detail}"
                )
            if patience.most_s is not None and time.monotonic() - began >= patience.most_s:
                raise MachineFault(
                    f"{host.awaited()} in {directory} not answered within {patience.most_s:g} s "
                    f"(astra worker --spool {directory})"
                )
            host.say_awaited()
            if patience.pulse is not None:
                patience.pulse(())
            time.sleep(patience.poll_s)
        return result


def _question(problem: Problem, request: JobRequest) -> str:
    """A digest of all that is asked: not of what is drawn for it, nor of what is known already."""
    workloads = [w.model_dump(mode="json") for w in request.workloads]
    asked = {
        "problem": problem.digest,
        "candidate": request.candidate.id,
        "device": request.device,
        "workloads": workloads,
        "seed": "fresh" if isinstance(request.seed, FreshSeed) else request.seed,
        "limits": asdict(request.limits),
        "profile": request.profile,
        "safety": request.safety,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _name(request: JobRequest, question: str) -> str:
    effort = "search" if request.profile else "confirm"
    digest = hashlib.sha256(question.encode()).hexdigest()[:16]
    return f"{effort}-{request.candidate.id}-{digest}"
