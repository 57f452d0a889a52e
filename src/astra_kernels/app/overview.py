"""One line for a run. Read once from its log, then kept beside it, so that a thousand runs open fast."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_kernels.errors import RunError
from astra_kernels.json_text import parse_json
from astra_kernels.records.confirmation import conclude
from astra_kernels.records.evaluation import Measured, Modelled, Passed
from astra_kernels.records.guarded import ahead_at_some_sizes
from astra_kernels.records.history import History
from astra_kernels.records.wins import timed_workloads, won_workloads
from astra_kernels.store import EVENTS, RunStore

_LONG = frozenset({"baseline_evaluated", "candidate_evaluated", "candidate_screened"})
"""Nine tenths of a log, of which a line says nothing but how many there are."""
_KEPT = ".overview.json"
_FORM = 2
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
    """One line for a run: the kept one while the log is as it was, by size and time, else a new one.

    Raises:
        RunError: it is no run, or its log is damaged.
    """
    try:
        now = (directory / EVENTS).stat()
    except OSError as error:
        raise RunError(f"{directory}: cannot be read: {error.strerror or error}") from None
    state = [now.st_size, now.st_mtime_ns]
    kept = directory / _KEPT
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError):
        stored = parse_json(kept.read_bytes())
        if (stored["form"], stored["log"]) == (_FORM, state):
            return Overview(**{**stored["overview"], "run": directory.name})
    overview = _read(directory)
    document = {"form": _FORM, "log": state, "overview": asdict(overview)}
    with suppress(OSError):  # a folder that may only be read is listed as well
        partial = directory / f"{_KEPT}.partial"
        partial.write_text(json.dumps(document), encoding="utf-8")
        partial.replace(kept)
    return overview


def _read(directory: Path) -> Overview:
    store = RunStore.open(directory)
    history = History.fold(store.events(words=False, without=_LONG))
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
        candidates=store.kinds().count("candidate_evaluated"),
        seconds=round(history.elapsed_s, 1),
        tokens=history.ledger.tokens,
    )


def _conclusion(history: History) -> tuple[str, str]:
    if history.finished is None:
        return "not finished", ""
    look = next((r for r in history.remeasured if r.candidate == history.finished.best), None)
    if look is None:
        ahead = ahead_at_some_sizes(history)
        if ahead is None:
            return "no improvement found", ""
        timed = timed_workloads(ahead.evaluation) if isinstance(ahead.evaluation, Passed) else ()
        kind = " modelled" if any(isinstance(w.timing, Modelled) for w in timed) else ""
        won = len(won_workloads(ahead.evaluation))
        return "faster at some sizes", f"{won} of {len(timed)}{kind}"
    match look.evaluation:
        case Passed(geomean=Measured() as time):
            gain = f"{time.ratio:.3f} [{time.ratio_low:.3f}, {time.ratio_high:.3f}]"
        case Passed(geomean=Modelled() as time):
            gain = f"{time.gain:.3f} modelled"
        case _:
            gain = ""
    return conclude(look.look).verdict, gain
