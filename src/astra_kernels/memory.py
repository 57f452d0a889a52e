"""What came of techniques in earlier runs, failures too: a file of one line per attempt that a person can read and prune.

Lines are JSON objects with the fields of `Note`. A line that cannot be read is skipped and left alone, so that
a hand edit loses nothing. Modelled gains are told apart from measured ones and never mixed with them.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from astra_kernels.errors import UserError
from astra_kernels.records.base import Record
from astra_kernels.records.evaluation import Evaluation, Measured, Modelled, Passed
from astra_kernels.records.history import Attempt, History, gain
from astra_kernels.records.problem import Problem

_MOST_LINES = 24


class Note(Record):
    """One attempt of an earlier run."""

    kernel: str
    """The class of the kernel: the definition's `op_type`, else its name."""
    gpu: str
    """As the device names itself, or `sim:NAME`."""
    technique: str
    title: str
    outcome: str
    kind: Literal["measured", "modelled", "none"]
    gain: float | None = None
    """Against the run's baseline, not against the parent."""
    candidate: str
    run: str
    """Digest of the problem and name of the run's directory: the same attempt is noted once."""


def notes_of(history: History, problem: Problem, run: str) -> tuple[Note, ...]:
    """A note for every attempt of a run."""
    return tuple(
        _note(attempt, problem, f"{history.problem_digest[:12]} {run}")
        for attempt in history.attempts
    )


def remember(path: Path, notes: Iterable[Note]) -> int:
    """Append the notes that the file does not have; returns how many.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8", errors="replace") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            text = stream.read()
            known = {(n.run, n.candidate) for n in _read(text)}
            new = [n for n in notes if (n.run, n.candidate) not in known]
            if text and not text.endswith("\n"):  # a hand edit, or a writer that was killed
                stream.write("\n")
            stream.writelines(json.dumps(n.model_dump(mode="json")) + "\n" for n in new)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror or error}; --no-memory goes on without it"
        ) from None
    return len(new)


def recall(path: Path) -> tuple[Note, ...]:
    """All notes; none where there is no file."""
    try:
        return tuple(_read(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return ()


def told(notes: Iterable[Note], problem: Problem) -> str:
    """What a planner hears: a line for each technique and GPU, what it brought to kernels of this class; may be empty."""
    kernel = kernel_class(problem)
    groups: dict[tuple[str, str], list[Note]] = {}
    for note in notes:
        if note.kernel == kernel:
            groups.setdefault((note.technique, note.gpu), []).append(note)
    most_tried = sorted(groups, key=lambda key: (-len(groups[key]), key))[:_MOST_LINES]
    return "\n".join(_line(*key, groups[key]) for key in sorted(most_tried))


def kernel_class(problem: Problem) -> str:
    """Which kernels are alike."""
    return problem.definition.op_type or problem.definition.name


def _line(technique: str, gpu: str, group: Sequence[Note]) -> str:
    gains = sorted(n.gain for n in group if n.gain is not None)
    failed = sorted({n.outcome for n in group if n.gain is None})
    parts = [f"{technique} on {gpu}: tried {len(group)} times"]
    if gains:
        kind = next(n.kind for n in group if n.gain is not None)
        parts.append(
            f"{kind} gain over the baseline {gains[0]:.3f} to {gains[-1]:.3f}, median {statistics.median(gains):.3f}"
        )
    if failed:
        parts.append(f"failed: {', '.join(failed)}")
    return "; ".join(parts)


def _note(attempt: Attempt, problem: Problem, run: str) -> Note:
    evaluation = attempt.evaluation
    return Note(
        kernel=kernel_class(problem),
        gpu=evaluation.device,
        technique=attempt.plan.technique,
        title=attempt.candidate.title,
        outcome=evaluation.outcome,
        kind=_kind(evaluation),
        gain=gain(evaluation),
        candidate=attempt.candidate.id,
        run=run,
    )


def _kind(evaluation: Evaluation) -> Literal["measured", "modelled", "none"]:
    match evaluation.geomean if isinstance(evaluation, Passed) else None:
        case Measured():
            return "measured"
        case Modelled():
            return "modelled"
    return "none"


def _read(text: str) -> Iterable[Note]:
    for line in text.splitlines():
        try:
            yield Note.model_validate_json(line)
        except ValidationError:
            continue
