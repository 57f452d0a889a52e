"""docs/comparison.md speaks of every project in every table, with sources that can be looked up."""

import json
import re

import pytest

#: Each project, and how the names of its sources begin. Sources of our own are files of the repository.
PROJECTS = {
    "Astra": None,
    "Astra (paper)": "paper",
    "KernelAgent": "ka",
    "Atrex kernel agent": "atrex",
    "GEAK": "geak",
    "CudaForge": "cf",
    "OpenEvolve": "oe",
    "Kernel Tuner": "kt",
    "KernelBench": "kb",
    "SOL-ExecBench": "sol",
    "FlashInfer-Bench": "fib",
}
TABLES = (
    "What each is for, and what it does better than Astra",
    "What goes in, what comes out",
    "How correctness is decided",
    "How time is measured",
    "What it runs on",
)
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def text(repository):
    return (repository / "docs" / "comparison.md").read_text()


@pytest.fixture(scope="module")
def sources(text):
    return dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", text, re.MULTILINE))


def table(text, heading):
    """The header and the rows of the table below a heading, as lists of cells."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)
    return header, rows


@pytest.mark.parametrize("heading", TABLES)
def test_every_project_has_a_full_row(text, heading):
    header, rows = table(text, heading)
    names = [re.sub(r" \(\[.*", "", row[0]) for row in rows]
    assert names == list(PROJECTS)
    assert {len(row) for row in rows} == {len(header)}
    assert all(all(row) for row in rows), "a cell says nothing; 'not found' would"


@pytest.mark.parametrize("heading", TABLES)
def test_every_row_names_a_source_of_that_project(text, heading):
    _, rows = table(text, heading)
    for row, beginning in zip(rows, PROJECTS.values(), strict=True):
        line = "|".join(row)
        if beginning is None:
            assert re.search(r"\]\([\w./-]+\)", line), row[0]
        else:
            assert re.search(rf"\]\[{beginning}-[\w-]+\]", line), row[0]


def test_no_table_is_missing_from_the_list(text):
    headings = re.findall(r"^## (.+)\n\n\|", text, re.MULTILINE)
    assert tuple(headings) == TABLES


def test_sources_are_defined_and_used(text, sources):
    used = set(re.findall(r"\]\[([\w-]+)\]", text))
    assert used == set(sources)
    assert {name.split("-")[0] for name in sources} == {b for b in PROJECTS.values() if b}


def test_sources_are_pinned(sources):
    """What a link shows is what was read: a commit, or a version of a paper."""
    pinned = (
        r"https://github\.com/[\w-]+/[\w-]+/blob/[0-9a-f]{40}/\S+|https://arxiv\.org/abs/[\d.]+v\d"
    )
    assert [url for url in sources.values() if not re.fullmatch(pinned, url)] == []


def test_links_inside_the_repository_resolve(text, repository):
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert len(links) > 5
    root = repository.resolve()
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in HEADING.findall(text)}
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors, link
            continue
        path = (root / "docs" / link).resolve()
        assert path.is_relative_to(root) and path.is_file(), link


def test_figures_of_other_projects_are_not_lined_up(text):
    """Their speedups were measured on other GPUs, against other baselines, by other clocks."""
    assert "cannot be compared" in text
    for heading in TABLES:
        for row in table(text, heading)[1]:
            assert not re.search(r"\d(\.\d+)?\s?[x×](?!\w)|speed-?up of", " ".join(row)), row[0]


def test_it_says_who_wrote_it_when_and_that_it_may_be_corrected(text):
    opening = text.split("\n## ", 1)[0]
    assert re.search(r"Written on \d+ \w+ 20\d\d by the Astra project", opening)
    assert "invited to correct it" in opening and "ran none" in opening
    assert len(text.splitlines()) <= 200


def test_the_error_of_our_model_is_the_stated_one(text, repository):
    machines = repository / "src" / "astra_kernels" / "simulator" / "machines"
    error = json.loads((machines / "h200_model_error.json").read_text())["unseen_gain"]
    weak = " ".join(text.split("## Where Astra is weak", 1)[1].split())
    assert f"off by {error['geomean_root_mean_square']:.1%}".replace("%", " %") in weak
    assert f"{error['geomean_worst']:.0%} at worst".replace("%", " %") in weak
    assert f"by {error['root_mean_square']:.1%}, {error['worst']:.0%}".replace("%", " %") in weak
    assert f"{error['ordered']:.0%} were in the right order".replace("%", " %") in weak
