"""What a report says is what the log says, told safely, from any point of a run."""

import json
import re
from html import escape
from html.parser import HTMLParser
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from astra_kernels.app.runs import read_run
from astra_kernels.records.history import History
from astra_kernels.reporting.facts import report_of
from astra_kernels.reporting.page import html, markdown
from astra_kernels.store import RunStore

ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Checks nesting, and collects what a browser would act on."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses, self.identifiers, self.words = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        assert not [name for name in given if name.startswith("on")], given
        self.addresses += [given[k] for k in ("href", "src", "action", "data") if k in given]
        if "id" in given:
            self.identifiers.append(given["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def facts_of(directory, history=None):
    run = read_run(directory, words=False)
    return report_of(directory.name, run.problem, history or run.history)


def events_as_written(directory):
    return [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]


def test_numbers_are_those_of_the_log(measured_run):
    events = events_as_written(measured_run)
    look = next(e for e in events if e["event"] == "winner_remeasured")
    mean = look["evaluation"]["geomean"]
    for text in (html(facts_of(measured_run)), markdown(facts_of(measured_run))):
        assert f"{mean['ratio']:.3f} times the baseline" in text
        assert f"[{mean['ratio_low']:.3f}, {mean['ratio_high']:.3f}]" in text
        for workload in look["evaluation"]["workloads"]:
            if workload["timing"]:
                assert workload["uuid"] in text
                assert f"{workload['timing']['candidate_us']:.2f}" in text
        for event in events:
            if event["event"] == "candidate_evaluated":
                title = event["candidate"]["title"]
                assert escape(title) in text or title in text


def test_the_verdict_comes_first(measured_run):
    words = " ".join(Page(html(facts_of(measured_run))).words)
    assert words.index("Confirmed") < words.index("Workload by workload")
    assert markdown(facts_of(measured_run)).startswith(
        "## flashinfer_fused_add_rmsnorm: confirmed (measured)\n"
    )


def test_a_modelled_run_claims_no_speedup(modelled_run):
    for text in (html(facts_of(modelled_run)), markdown(facts_of(modelled_run))):
        words = " ".join(Page(text).words) if text.startswith("<!") else text
        assert "Nothing was measured" in words
        assert "no time was measured" in words
        assert "95 % interval" not in words
        assert not re.search(r"measured \d", words)
        assert "times the baseline's speed" not in words


def test_a_page_is_well_formed_and_asks_nobody_for_anything(recorded_run):
    text = html(facts_of(recorded_run))
    page = Page(text)
    assert "script" not in page.tags
    assert all(a.startswith("#") or a == "data:," for a in page.addresses)
    assert {a[1:] for a in page.addresses if a.startswith("#")} <= set(page.identifiers)
    assert len(page.identifiers) == len(set(page.identifiers))
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(picture)


@pytest.mark.parametrize("share", [0, 0.2, 0.4, 0.6, 0.8, 0.99])
def test_a_run_can_be_reported_at_any_point(recorded_run, share):
    events = RunStore.open(recorded_run).events(words=False)
    part = events[: max(1, int(len(events) * share))]
    facts = facts_of(recorded_run, History.fold(part))
    Page(html(facts))
    assert markdown(facts).startswith("## ")
    assert facts.verdict.word == "not finished"
    assert "the run has not ended" in markdown(facts)


def test_what_agents_wrote_is_text_and_nothing_else(recorded_run):
    hostile = '</td><script>alert("x")</script><img src=x onerror=alert(1)> | a `b`\n# c'
    events = []
    for event in RunStore.open(recorded_run).events(words=False):
        if event.event == "candidate_evaluated":
            plan = event.plan.model_copy(update={"hypothesis": hostile, "risk": hostile})
            candidate = event.candidate.model_copy(update={"title": hostile})
            event = event.model_copy(update={"plan": plan, "candidate": candidate})
        events.append(event)
    facts = facts_of(recorded_run, History.fold(events))
    page = Page(html(facts))
    assert "script" not in page.tags and "img" not in page.tags
    rows = [line for line in markdown(facts).splitlines() if hostile[:10] in line]
    assert rows
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows if row.startswith("|"))


def test_a_measured_run_stands_under_its_roofline(measured_run):
    facts = facts_of(measured_run)
    assert facts.ceiling is not None
    for row in facts.workloads[:-1]:
        attained = row.minimum_bytes / row.candidate_us / 1e3
        assert attained < facts.ceiling.rate_gb_s(row.minimum_bytes) * 1.02
    assert "roofline: a copy" in html(facts)


def test_children_stand_below_their_parents(measured_run):
    attempts = facts_of(measured_run).attempts
    places = {a.id: n for n, a in enumerate(attempts)}
    assert len(places) == len(attempts) > 3
    for attempt in attempts:
        if attempt.parent in places:
            assert places[attempt.parent] < places[attempt.id]
            assert attempt.depth == attempts[places[attempt.parent]].depth + 1


def test_the_example_reports_are_current():
    loader = SourceFileLoader("reports", str(ROOT / "scripts" / "reports"))
    script = ModuleType("reports")
    script.__file__ = loader.path
    loader.exec_module(script)
    for name, archive in script.EXAMPLES.items():
        assert (script.REPORTS / f"{name}.html").read_text() == script.page(archive), (
            "run scripts/reports"
        )
