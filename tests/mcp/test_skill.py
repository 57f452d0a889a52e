"""The skill folder keeps to its format, and to what the tools and the records are."""

import re
from typing import get_args

import anyio
import pytest

from astra_kernels.agents.llm.catalogue import CATALOGUE
from astra_kernels.app.mcp_server.roots import Roots
from astra_kernels.app.mcp_server.workbench import Terms, Workbench
from astra_kernels.records.confirmation import Verdict
from astra_kernels.records.evaluation import Evaluation
from astra_kernels.records.plan import Bottleneck

from .conftest import mcp


@pytest.fixture(scope="module")
def skill(repository):
    return repository / "skills" / "astra-kernels"


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    from astra_kernels.app.exports import patch_in_words
    from astra_kernels.app.mcp_server.server import server_of

    async def listed():
        bench = Workbench(Terms(Roots.of((tmp_path_factory.mktemp("root"),)), "sim:h200"))
        async with mcp.Client(server_of(bench, patch_in_words)) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool for tool in anyio.run(listed)}


def test_its_front_matter_keeps_to_the_format(skill):
    text = (skill / "SKILL.md").read_text()
    front = text.split("---\n")[1]
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields["name"] == skill.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 0 < len(fields["description"]) <= 1024 and len(fields["compatibility"]) <= 500
    assert len(text.splitlines()) < 100


def test_its_links_lead_to_files_and_every_reference_is_named(skill):
    text = (skill / "SKILL.md").read_text()
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert links == {f"references/{p.name}" for p in (skill / "references").iterdir()}


def test_it_names_every_tool_and_no_other(skill, tools):
    text = (skill / "SKILL.md").read_text()
    body = text.split("---\n", 2)[2]
    assert set(tools) - {n for n in tools if f"`{n}`" in body} == {"report"}
    fields = {
        f for t in tools.values() for f in re.findall(r'"([a-z_]+)": \{', str(t).replace("'", '"'))
    }
    named = {n for n in re.findall(r"`([a-z_]+)`", body) if n not in tools}
    assert named <= fields | {"modelled"}, named - fields


def test_it_explains_every_outcome_verdict_bottleneck_and_technique(skill):
    verdicts = (skill / "references" / "verdicts.md").read_text()
    outcomes = {kind.outcome for kind in get_args(Evaluation)}
    assert outcomes | set(get_args(Verdict)) <= set(re.findall(r"^\| `([^`]+)`", verdicts, re.M))
    techniques = (skill / "references" / "techniques.md").read_text()
    first, table = techniques.split("| key | what |\n|---|---|\n")
    assert table.splitlines() == [f"| `{idea.key}` | {idea.what} |" for idea in CATALOGUE]
    keys = {idea.key for idea in CATALOGUE}
    known = set(get_args(Bottleneck)) | keys | {"technique", "diagnose"}
    assert set(re.findall(r"`([a-z_]+)`", first)) <= known
