"""The pictures of a report. A measured mark is filled, a modelled one is hollow and dashed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_kernels.reporting.attempts import AttemptFact
from astra_kernels.reporting.ceilings import Ceiling, Point
from astra_kernels.reporting.drawing import Drawing, Scale
from astra_kernels.reporting.workloads import WorkloadFact

_WIDTH, _ROW = 860.0, 26.0


def workload_chart(rows: Sequence[WorkloadFact]) -> str:
    """Ratio and interval of every workload, over a line at 1; empty without rows."""
    if not rows:
        return ""
    left, top = 300.0, 14.0
    height = top + _ROW * len(rows) + 44
    said = "; ".join(f"{row.name}: {row.interval}" for row in rows)
    drawing = Drawing(_WIDTH, height, "Gain of each workload with its interval", said)
    across = _ratio_scale([v for r in rows for v in (r.low, r.high)], left, _WIDTH - 40)
    _ratio_axis(
        drawing, across, top, height - 40, f"baseline time / candidate time, {rows[0].kind}"
    )
    for number, row in enumerate(rows):
        y = top + _ROW * (number + 0.5)
        kind = f"{row.kind} {row.verdict}"
        weight = "label strong" if not row.axes else "label"
        drawing.words(weight, (left - 12, y + 4), _short(row.name, 42), "end")
        drawing.line(f"interval {kind}", (across(row.low), y), (across(row.high), y))
        drawing.dot(f"mark {kind}", (across(row.ratio), y), 5, f"{row.name}: {row.interval}")
    return drawing.svg()


def search_chart(attempts: Sequence[AttemptFact]) -> str:
    """The tree of candidates on the left, what each gained on the right."""
    if not attempts:
        return ""
    left, top = 400.0, 14.0
    height = top + _ROW * (len(attempts) + 1) + 44
    said = "; ".join(f"{a.title} from {a.parent}: {_got(a)}" for a in attempts)
    drawing = Drawing(_WIDTH, height, "Search tree and gains", said)
    timed = [v for a in attempts for v in (a.low, a.high) if v is not None]
    across = _ratio_scale(timed or [1.0], left, _WIDTH - 40)
    kind = next((a.kind for a in attempts if a.kind != "none"), "none")
    _ratio_axis(drawing, across, top, height - 40, f"gain over the baseline, {kind}")
    places = {"": (14.0, top + _ROW * 0.5)}
    drawing.square("mark base", places[""], 5, "baseline")
    drawing.words("label strong", (26, places[""][1] + 4), "baseline")
    for number, attempt in enumerate(attempts, start=1):
        at = 14.0 + 18 * min(attempt.depth, 8), top + _ROW * (number + 0.5)
        places[attempt.id] = at
        _branch(drawing, places.get(attempt.parent, places[""]), at)
        _attempt(drawing, attempt, at, across)
    return drawing.svg()


def _attempt(
    drawing: Drawing, attempt: AttemptFact, at: tuple[float, float], across: Scale
) -> None:
    x, y = at
    state = "best" if attempt.best else "failed" if attempt.failed else "even"
    drawing.dot(f"node {state}", at, 5, f"{attempt.id}: {attempt.summary}")
    label = "label strong" if attempt.best else "label"
    drawing.words(label, (x + 12, y + 4), _short(attempt.title, int((380 - x) / 6.6)))
    if attempt.gain is None or attempt.low is None or attempt.high is None:
        drawing.words("label failed", (across(1.0) + 8, y + 4), attempt.outcome.replace("_", " "))
        return
    verdict = "faster" if attempt.low > 1 else "slower" if attempt.high < 1 else "even"
    kind = f"{attempt.kind} {verdict}"
    drawing.line(f"interval {kind}", (across(attempt.low), y), (across(attempt.high), y))
    drawing.dot(f"mark {kind}", (across(attempt.gain), y), 5, f"{attempt.title}: {_got(attempt)}")


def _branch(drawing: Drawing, parent: tuple[float, float], at: tuple[float, float]) -> None:
    (x, y), (to_x, to_y) = parent, at
    drawing.curve("branch", [(x, y + 5), (x, to_y), (to_x - 5, to_y)])


def roofline_chart(
    ceiling: Ceiling | None,
    baseline: Sequence[Point],
    final: Sequence[Point],
    others: Sequence[Point],
    kind: str,
) -> str:
    """Attained rate over the bytes of the task, under what the device allows; empty where nothing was timed."""
    every = [*baseline, *final, *others]
    if not every:
        return ""
    width, height, left, bottom = _WIDTH, 420.0, 80.0, 360.0
    sizes = [p.minimum_bytes for p in every]
    rates = [p.rate_gb_s for p in every] + ([ceiling.rate_gb_s(max(sizes))] if ceiling else [])
    across = Scale(min(sizes) / 2, max(sizes) * 2, left, width - 30, log=True)
    up = Scale(min(rates) / 1.6, max(rates) * 1.3, bottom, 20, log=True)
    said = "; ".join(f"{p.workload}: {p.rate_gb_s:.0f} GB/s" for p in final or baseline)
    drawing = Drawing(width, height, f"Roofline, {kind}", said)
    for tick in across.ticks():
        drawing.line("grid", (across(tick), 20), (across(tick), bottom))
        drawing.words("tick", (across(tick), bottom + 18), _bytes(tick), "middle")
    for tick in up.ticks():
        drawing.line("grid", (left, up(tick)), (width - 30, up(tick)))
        drawing.words("tick", (left - 8, up(tick) + 4), f"{tick:g}", "end")
    drawing.words(
        "axis", ((left + width) / 2, height - 12), "bytes that the task must move", "middle"
    )
    drawing.words("axis", (left, 14), f"GB/s attained, {kind}")
    if ceiling is not None:
        _ceiling(drawing, ceiling, across, up)
    for mark, dots in ((f"mark {kind} other", others), (f"mark {kind} base", baseline)):
        for point in dots:
            shape = drawing.square if dots is baseline else drawing.dot
            shape(mark, (across(point.minimum_bytes), up(point.rate_gb_s)), 4, _point(point))
    for point in final:
        at = across(point.minimum_bytes), up(point.rate_gb_s)
        drawing.dot(f"mark {kind} faster", at, 6, _point(point))
    return drawing.svg()


def _ceiling(drawing: Drawing, ceiling: Ceiling, across: Scale, up: Scale) -> None:
    steps = 60
    ratio = across.high / across.low
    sizes = [across.low * ratio ** (n / steps) for n in range(steps + 1)]
    curve = [(across(s), up(ceiling.rate_gb_s(s))) for s in sizes if ceiling.rate_gb_s(s) >= up.low]
    drawing.curve("ceiling", curve)
    x, y = curve[len(curve) * 2 // 3]
    drawing.words("label", (x - 10, y - 10), "roofline: a copy's rate, an empty launch", "end")


def prediction_chart(attempts: Sequence[AttemptFact]) -> str:
    """What plans promised against what their candidates got; empty where no candidate was timed."""
    timed = [a for a in attempts if a.gain is not None]
    if not timed:
        return ""
    size, left, bottom = 460.0, 70.0, 400.0
    values = [v for a in timed for v in (a.predicted, a.gain or 1.0)]
    low, high = min([*values, 1.0]) * 0.97, max([*values, 1.0]) * 1.03
    across, up = Scale(low, high, left, size - 20), Scale(low, high, bottom, 20)
    said = "; ".join(f"{a.title}: promised {a.predicted:.2f}, got {a.gain:.3f}" for a in timed)
    kind = timed[0].kind
    drawing = Drawing(size, size, f"Predicted against {kind} gain", said)
    for tick in across.ticks():
        drawing.line("grid", (across(tick), 20), (across(tick), bottom))
        drawing.line("grid", (left, up(tick)), (size - 20, up(tick)))
        drawing.words("tick", (across(tick), bottom + 18), f"{tick:g}", "middle")
        drawing.words("tick", (left - 8, up(tick) + 4), f"{tick:g}", "end")
    drawing.line("one", (across(low), up(low)), (across(high), up(high)))
    drawing.words("axis", ((left + size) / 2, size - 18), "predicted gain", "middle")
    drawing.words("axis", (left, 14), f"{kind} gain")
    for attempt in timed:
        at = across(attempt.predicted), up(attempt.gain or 1.0)
        state = "faster" if attempt.best else "even"
        said = f"{attempt.title}: promised {attempt.predicted:.2f}, got {attempt.gain:.3f}"
        drawing.dot(f"mark {attempt.kind} {state}", at, 5, said)
    return drawing.svg()


def _ratio_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A linear scale that holds all values and 1, with some room."""
    low, high = min([*values, 1.0]), max([*values, 1.0])
    room = max((high - low) * 0.08, 0.01)
    return Scale(low - room, high + room, start, end)


def _ratio_axis(drawing: Drawing, across: Scale, top: float, bottom: float, name: str) -> None:
    for tick in across.ticks():
        kind = "one" if math.isclose(tick, 1.0) else "grid"
        drawing.line(kind, (across(tick), top), (across(tick), bottom))
        drawing.words("tick", (across(tick), bottom + 16), f"{tick:g}", "middle")
    drawing.line("one", (across(1.0), top), (across(1.0), bottom))
    drawing.words("axis", ((across.start + across.end) / 2, bottom + 34), name, "middle")


def _got(attempt: AttemptFact) -> str:
    if attempt.gain is None:
        return attempt.outcome.replace("_", " ")
    return f"{attempt.kind} {attempt.gain:.3f} [{attempt.low:.3f}, {attempt.high:.3f}]"


def _point(point: Point) -> str:
    return f"{point.workload}: {point.us:.2f} us, {point.rate_gb_s:.0f} GB/s"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} B"
