"""The report as HTML or Markdown: templates beside this module, filled from `Report`. Nothing is fetched, ever."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from astra_kernels.reporting import charts
from astra_kernels.reporting.ceilings import Point, points
from astra_kernels.reporting.facts import Report
from astra_kernels.reporting.method import environment_facts, method_facts, search_facts
from astra_kernels.templating import beside

_FOLDER = "templates"


def html(report: Report) -> str:
    """One self-contained page: no script, no request, light and dark, printable."""
    return _environment(escape=True).get_template("report.html").render(**_context(report))


def markdown(report: Report) -> str:
    """The same for a pull request."""
    return _environment(escape=False).get_template("report.md").render(**_context(report))


def _context(report: Report) -> dict[str, object]:
    """Names that the templates use; all of them are facts or finished pictures."""
    return {
        "report": report,
        "verdict": report.verdict,
        "method": method_facts(report),
        "search": search_facts(report),
        "environment": environment_facts(report),
        "workload_chart": Markup(charts.workload_chart(report.workloads)),
        "search_chart": Markup(charts.search_chart(report.attempts)),
        "roofline_chart": Markup(_roofline(report)),
        "prediction_chart": Markup(charts.prediction_chart(report.attempts)),
        "failed": [a for a in report.attempts if a.failed],
        "style": Markup(_text("report.css")),
    }


def _roofline(report: Report) -> str:
    history = report.history
    found: list[Point] = []
    for attempt in history.attempts:
        if attempt.candidate.id != report.best:
            found += points(attempt.evaluation)
    shown = report.judged or history.baseline_evaluation
    base = points(shown, baseline=True)
    final = points(report.judged) if report.judged else ()
    return charts.roofline_chart(report.ceiling, base, final, found, _kind(report))


def _kind(report: Report) -> str:
    device = report.started.config.device
    return "modelled" if device.startswith("sim") else "measured"


@cache
def _environment(*, escape: bool) -> Environment:
    environment = beside(__package__, _FOLDER, escape=escape)
    environment.filters["cell"] = _cell
    environment.filters["percent"] = lambda share: f"{share:.1%}"
    return environment


def _cell(text: object) -> str:
    """Text that stays within one cell of a Markdown table."""
    return " ".join(str(text).replace("|", "\\|").split())


def _text(name: str) -> str:
    return files(__package__).joinpath(_FOLDER, name).read_text(encoding="utf-8")
