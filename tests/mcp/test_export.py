"""The seam for an exporter: with one the tool is there, and it is asked for finished runs only."""

import shutil

import anyio
import pytest

from astra_kernels.app.mcp_server.roots import Roots
from astra_kernels.app.mcp_server.workbench import Terms, Workbench

from .conftest import mcp, write_sigmoid

server_of = pytest.importorskip("astra_kernels.app.mcp_server.server").server_of


@pytest.mark.full
def test_the_best_of_a_finished_run_is_exported(tmp_path):
    write_sigmoid(tmp_path / "sigmoid")
    (tmp_path / "tree").mkdir()

    def copied(run, tree):
        shutil.copy(run / "events.jsonl", tree)
        return f"wrote {tree / 'events.jsonl'}"

    async def talk():
        bench = Workbench(Terms(Roots.of((tmp_path,)), "sim:h200", tmp_path / "runs"))
        async with mcp.Client(server_of(bench, copied)) as client:
            await client.call_tool("load_problem", {"problem": "sigmoid"})
            early = await client.call_tool("export", {"tree": "tree"})
            await client.call_tool("finish", {})
            outside = await client.call_tool("export", {"tree": "/etc"})
            done = await client.call_tool("export", {"tree": "tree"})
        bench.close()
        return early, outside, done

    early, outside, done = anyio.run(talk)
    assert early.is_error and "call finish first" in early.content[0].text
    assert outside.is_error and "outside the directories" in outside.content[0].text
    assert done.structured_content == {"result": f"wrote {tmp_path / 'tree' / 'events.jsonl'}"}
    assert (tmp_path / "tree" / "events.jsonl").is_file()


def test_without_an_exporter_there_is_no_such_tool(tmp_path):
    async def names(export):
        bench = Workbench(Terms(Roots.of((tmp_path,)), "sim:h200"))
        async with mcp.Client(server_of(bench, export)) as client:
            return {t.name for t in (await client.list_tools()).tools}

    without = anyio.run(names, None)
    assert "export" not in without
    assert anyio.run(names, lambda run, tree: "") == without | {"export"}
