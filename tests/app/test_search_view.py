"""`astra show` and the end of `astra optimize`: the search as the report has it, on any terminal."""

import io
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from astra_kernels.app.render_search import search
from astra_kernels.app.runs import read_run
from astra_kernels.reporting.attempts import attempt_facts

TESTS = Path(__file__).parents[1]
ARCHIVE = TESTS.parent / "docs/results/h200-2026-12-01/runs/multi-silu_and_mul.tar.xz"


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return read_run(folder / "multi-silu_and_mul").history


@pytest.fixture(scope="session")
def modelled():
    return read_run(TESTS / "recorded" / "sigmoid").history


def shown(history, width):
    stream = io.StringIO()
    search(Console(file=stream, width=width), history)
    return stream.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", ["measured", "modelled"])
def test_every_candidate_is_there_within_the_width_and_without_colour(request, name, width):
    history = request.getfixturevalue(name)
    text = shown(history, width)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width
    flat = text.replace(" ", "").replace("\n", "").replace("│", "")
    for fact in attempt_facts(history):
        assert fact.technique[:8].replace(" ", "") in flat
        assert (fact.id in text) == (width >= 90)
    assert ("predicted" in text) == (width >= 60)
    assert flat.count("(best)") == 1


def test_prediction_stands_beside_outcome_and_children_below_their_parent(measured):
    rows = [line for line in shown(measured, 220).splitlines() if line.startswith("│")]
    facts = attempt_facts(measured)
    assert len(rows) == len(facts)
    for fact, row in zip(facts, rows, strict=True):
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells[1] == fact.id
        assert float(cells[3]) == pytest.approx(fact.predicted, abs=0.0051)
        assert cells[4] == f"{fact.gain:.3f} [{fact.low:.3f}, {fact.high:.3f}]"
        assert ("└" in row) == (fact.depth > 1)


def test_failures_are_counted_by_kind_with_one_that_failed_so(modelled):
    text = shown(modelled, 300)
    failed = [fact for fact in attempt_facts(modelled) if fact.failed]
    assert failed
    for outcome in {fact.outcome for fact in failed}:
        count = sum(fact.outcome == outcome for fact in failed)
        lines = [x for x in text.splitlines() if x.startswith(outcome.replace("_", " "))]
        assert len(lines) == 1
        assert (f"({count} of them)" in lines[0]) == (count > 1)
        assert any(fact.summary in lines[0] for fact in failed)


def test_the_roofline_is_measured_or_said_to_be_modelled(measured, modelled):
    (line,) = (x for x in shown(measured, 300).splitlines() if "roofline" in x)
    assert line.startswith("baseline ") and "fastest " in line and "modelled" not in line
    (line,) = (x for x in shown(modelled, 300).splitlines() if "datasheet" in x)
    assert line.endswith("modelled")
