"""The facts of a pull request in sentences and tables: measured and modelled ones are never mixed up."""

from __future__ import annotations

from collections.abc import Iterator

from astra_kernels.exporters.regions import Region
from astra_kernels.exporters.winner import Winner
from astra_kernels.records.describe import describe_timing
from astra_kernels.records.evaluation import (
    Measured,
    Modelled,
    OutputAccuracy,
    Passed,
    Timing,
    WorkloadResult,
)
from astra_kernels.records.wins import guarded_gain, is_win, timed_workloads


def times_said(winner: Winner) -> str:
    """How the times came about, and their means: of the new kernel alone, and of both behind the guard."""
    return _came_about(winner) + _guarded(winner)


def _guarded(winner: Winner) -> str:
    timed = timed_workloads(winner.evaluation)
    lost = sum(not is_win(w.timing) for w in timed)
    if not lost:
        return ""
    kind = "modelled, " if winner.modelled else ""
    return (
        f" That is the new kernel alone at every size. With the old one at the {lost} of {len(timed)} sizes that are no win, "
        f"as the guard has it: {guarded_gain(winner.evaluation):.3f} ({kind}from the rows below, the guard's own cost left out)."
    )


def _came_about(winner: Winner) -> str:
    evaluation = winner.evaluation
    if winner.modelled:
        return (
            f"Modelled for {winner.gpu} by the time model of a simulated device; the kernels themselves were executed "
            f"there, instruction by instruction. Geometric mean: {describe_timing(evaluation.geomean)}. "
            "No GPU was involved."
        )
    rounds = [w.timing.rounds for w in evaluation.workloads if isinstance(w.timing, Measured)]
    counted = "no" if not rounds else str(min(rounds))
    counted += f" to {max(rounds)}" if rounds and max(rounds) > min(rounds) else ""
    return (
        f"Measured on {winner.gpu} on {winner.remeasured.at[:10]}: both captured into CUDA graphs, their replays "
        f"interleaved, over {counted} rounds in several processes, with inputs that change from call to call and no data in "
        f"a cache (cold). Ratio is old time over new; intervals are 95 %. Geometric mean: {describe_timing(evaluation.geomean)}."
    )


def table(winner: Winner, regions: tuple[Region, ...]) -> str:
    """One row for each timed workload."""
    word = "modelled " if winner.modelled else ""
    ratio = "modelled gain (model error)" if winner.modelled else "ratio [95 % interval]"
    lines = [
        f"| workload | {word}old, us | {word}new, us | {ratio} | a win by itself | new kernel used |",
        "|---|---|---|---|---|---|",
    ]
    for row in winner.evaluation.workloads:
        if row.timing is None or row.hidden:
            continue
        old, new, said = _columns(row.timing)
        used = any(r.holds(row.axes) for r in regions)
        won = is_win(row.timing)
        lines.append(f"| {row.uuid} | {old} | {new} | {said} | {_yes(won)} | {_yes(used)} |")
    return "\n".join(lines)


def _columns(timing: Timing) -> tuple[str, str, str]:
    match timing:
        case Measured():
            interval = f"{timing.ratio:.3f} [{timing.ratio_low:.3f}, {timing.ratio_high:.3f}]"
            return f"{timing.baseline_us:.2f}", f"{timing.candidate_us:.2f}", interval
        case Modelled():
            gain = f"{timing.gain:.3f} (± {timing.model_error:.0%})"
            return f"{timing.baseline_us:.2f}", f"{timing.candidate_us:.2f}", gain
    return "", "", f"not established: {timing.reason}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def timing_facts(winner: Winner) -> Iterator[str]:
    """The control, other means, versions."""
    control, evaluation = winner.remeasured.control, winner.evaluation
    if isinstance(control, Passed) and isinstance(control.geomean, Measured):
        yield f"A/A control, the old code against itself by the same method: {describe_timing(control.geomean)}."
    elif winner.modelled:
        yield "There is no A/A control: a model gives the same time for the same code."
    else:
        yield "There is no A/A control."
    for name, timing in (
        ("weighted by how often it is served", evaluation.weighted_geomean),
        ("warm, with the data in the L2 cache", evaluation.warm_geomean),
    ):
        if timing is not None:
            yield f"{name[0].upper()}{name[1:]}: {describe_timing(timing)}."
    named = ("nvcc", "host_compiler", "device_driver", "device_cuda", "python", "numpy")
    versions = [
        f"{n.removeprefix('device_')} {evaluation.environment[n]}"
        for n in named
        if n in evaluation.environment
    ]
    if winner.modelled or "device_driver" not in evaluation.environment:
        versions.append("driver: none had a part" if winner.modelled else "driver: not recorded")
    yield f"Device: {evaluation.device}; {', '.join(versions)}."


def correctness(winner: Winner) -> Iterator[str]:
    """Against what, on how much, how exact."""
    evaluation, claim = winner.evaluation, winner.confirmation.correct
    yield f"{claim.verdict}: {claim.reason}; oracle: {evaluation.oracle or 'not recorded'}."
    hidden = [w for w in evaluation.workloads if w.hidden]
    if hidden:
        kinds = "; ".join(dict.fromkeys(w.kind for w in hidden if w.kind))
        yield (
            f"{len(hidden)} of the workloads were drawn when the new code was final, with sizes and values that nobody saw "
            f"before: {kinds}."
        )
    rows = [w for w in evaluation.workloads if w.accuracy]
    new, old = _worst(rows, "accuracy"), _worst(rows, "baseline_accuracy")
    for name, one in new.items():
        before = old.get(name)
        compared = "" if before is None else f", the old code's {before.max_ulp:.3g} ulp"
        yield f"Largest error of `{name}` against the oracle: {one.max_ulp:.3g} ulp{compared}."
    steady = evaluation.consistency
    if steady is not None:
        known = {True: "yes", False: "no", None: "not established"}
        yield (
            f"Same bits in two calls: {known[steady.repeatable]}; whatever the batch: {known[steady.batch_invariant]}"
            f"{f' ({steady.detail})' if steady.detail else ''}."
        )
    for left in evaluation.dropped:
        yield f"Hidden workload left out, as the old code fails on it: {left.kind}: {left.reason}."


def _worst(rows: list[WorkloadResult], which: str) -> dict[str, OutputAccuracy]:
    found: dict[str, OutputAccuracy] = {}
    for row in rows:
        accuracies: tuple[OutputAccuracy, ...] = getattr(row, which)
        for one in accuracies:
            if one.output not in found or one.max_ulp > found[one.output].max_ulp:
                found[one.output] = one
    return found


def safety(winner: Winner) -> Iterator[str]:
    """Every tool, and what it does not establish."""
    for check in winner.evaluation.safety:
        word = "held" if check.verdict == "held" else "not established"
        yield f"{check.tool}: {word}: {check.detail}."
    if not winner.evaluation.safety:
        yield "Not established: no safety tool was run."


def regions_said(regions: tuple[Region, ...]) -> str:
    """The sizes in words, and how they came about."""
    listed = [
        f"- {region}"
        + (f" (timed at {', '.join(map(str, region.tested))})" if len(region.tested) > 1 else "")
        for region in regions
    ]
    return "\n".join(
        [
            "Sizes, any of:",
            "",
            *listed,
            "",
            "Each was a confirmed win by itself. A range goes from one confirmed win to the next, with nothing in between "
            "that was timed and is none; sizes between two of them were not timed.",
        ]
    )
