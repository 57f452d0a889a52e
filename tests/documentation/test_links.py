"""Links in Markdown work where a forge shows it: files are there, and headings have the anchors that links name."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
AHEAD = ROOT / "docs" / "results"
"""Recorded output; its links are into the trees that it was made for."""


def links(page: Path) -> list[str]:
    text = re.sub(r"`[^`\n]+`", "", _FENCE.sub("", page.read_text()))
    found = [first or second for first, second in _LINK.findall(text)]
    return [link for link in found if not re.match(r"\w+:", link)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """As GitHub makes them: lower case, no punctuation, a hyphen for every space."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h).lower() for h in headings)
    return frozenset(re.sub(r"[^\w\- ]", "", h).replace(" ", "-") for h in plain)


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page):
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (
            anchor and there.suffix == ".md" and anchor not in anchors(there)
        ):
            found.append(link)
    return found


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if AHEAD not in p.parents],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_every_link_leads_somewhere(page):
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Some title, here\n[a](#some-title-here) [b](#no) [c](no.md)\n[d](page.md#some-title-here)\n"
        "```\n[e](no.md)\n```\n`[f](no.md)` [g](https://example.org)\n"
    )
    assert broken(page) == ["#no", "no.md"]


@pytest.mark.parametrize("index", ["README.md", "docs/index.md"])
def test_every_page_can_be_reached_from_the_lists(index):
    page = ROOT / index
    listed = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
    expected = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "index.md"}
    assert sorted(p.name for p in expected - listed) == []
