"""One line for a run. Read once from its log, then kept beside it, so that a thousand runs open fast."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_kernels.app.runs import read_history
from astra_kernels.errors import RunError
from astra_kernels.json_text import parse_json
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import Measured, Modelled, Passed
from astra_kernels.records.history import History
from astra_kernels.store import EVENTS

_KEPT = ".overview.json"
_FORM = 1
"""Changes when the meaning of what is kept does."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What a list of runs says of one."""

    run: str
    began: str
    """UTC, ISO 8601."""
    problem: str
    device: str
    agents: str
    verdict: str
    gain: str
    """With its kind: a modelled one says so."""
    candidates: int
    seconds: float
    tokens: int


def overview_of(directory: Path) -> Overview:
    """One line for a run: the kept one while the log is as long as it was, else a new one.

    Raises:
        RunError: it is no run, or its log is damaged.
    """
    try:
        length = (directory / EVENTS).stat().st_size
    except OSError as error:
        raise RunError(f"{directory}: cannot be read: {error.strerror or error}") from None
    kept = directory / _KEPT
    with suppress(OSError, ValueError, TypeError, AttributeError):
        stored = parse_json(kept.read_bytes())
        if (stored["form"], stored["length"]) == (_FORM, length):
            return Overview(**{**stored["overview"], "run": directory.name})
    overview = _read(directory)
    document = {"form": _FORM, "length": length, "overview": asdict(overview)}
    with suppress(OSError):  # a folder that may only be read is listed as well
        partial = directory / f"{_KEPT}.partial"
        partial.write_text(json.dumps(document), encoding="utf-8")
        partial.replace(kept)
    return overview


def _read(directory: Path) -> Overview:
    history = read_history(directory, words=False)
    started = history.started
    if started is None:
        raise RunError(f"{directory}: the log does not begin with the start of a run")
    verdict, gain = _conclusion(history)
    return Overview(
        run=directory.name,
        began=started.at,
        problem=started.problem,
        device=started.config.device,
        agents=started.config.agents,
        verdict=verdict,
        gain=gain,
        candidates=len(history.attempts),
        seconds=round(history.elapsed_s, 1),
        tokens=history.ledger.tokens,
    )


def _conclusion(history: History) -> tuple[str, str]:
    if history.finished is None:
        return "not finished", ""
    look = next((r for r in history.remeasured if r.candidate == history.finished.best), None)
    if look is None:
        return "no improvement found", ""
    match look.evaluation:
        case Passed(geomean=Measured() as time):
            gain = f"{time.ratio:.3f} [{time.ratio_low:.3f}, {time.ratio_high:.3f}]"
        case Passed(geomean=Modelled() as time):
            gain = f"{time.gain:.3f} modelled"
        case _:
            gain = ""
    return conclude(look.look).verdict, gain
