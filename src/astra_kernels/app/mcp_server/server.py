"""The tools, as a client sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

import anyio
from anyio import to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from astra_kernels import __version__
from astra_kernels.app.mcp_server import wording
from astra_kernels.app.mcp_server.answers import (
    CandidateGiven,
    Confirmed,
    Diagnosed,
    HistoryTold,
    Judged,
    LoadedProblem,
    Reported,
)
from astra_kernels.app.mcp_server.call import Call, CalledOff, carried_out
from astra_kernels.app.mcp_server.outside_run import OutsideRun, Verdict
from astra_kernels.app.mcp_server.strict import strict_tool
from astra_kernels.app.mcp_server.workbench import Workbench, plan_of
from astra_kernels.app.reports import REPORT, write_page
from astra_kernels.app.runs import BEST, read_run
from astra_kernels.errors import AstraError, UserError
from astra_kernels.records.base import Record
from astra_kernels.records.candidate import Candidate
from astra_kernels.records.plan import Plan
from astra_kernels.reporting.facts import report_of
from astra_kernels.reporting.page import html

_INSTRUCTIONS = """Astra judges CUDA kernels; you make them faster. Call load_problem, then diagnose, then for each idea \
verify (right?) and bench (right and faster?), and confirm the best. finish ends the run and writes its report. Read the \
rules that load_problem gives: code decides, nothing you say does. Times of simulated devices are modelled and no speedup."""

RunName = Annotated[
    str | None, Field(description="Name of an open run; default: the one that was loaded last.")
]
Export = Callable[[Path, Path], str]
"""Exports the best of a finished run: given its directory and a source tree, writes, and says what in words."""
_Result = TypeVar("_Result")
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_STARTS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def server_of(bench: Workbench, export: Export | None = None) -> MCPServer[None]:
    """A server whose tools work on `bench`; with `export`, one that exports too."""
    tools = Tools(bench, export)
    adding: list[Callable[..., object]] = [tools.diagnose, tools.verify, tools.bench, tools.confirm]
    adding += [tools.report, tools.finish]
    if export is not None:
        adding.append(tools.export)
    return MCPServer(
        "astra",
        title="Astra",
        version=__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        tools=[
            strict_tool(tools.load_problem, _STARTS),
            strict_tool(tools.history, _READS),
            *(strict_tool(tool, _ADDS) for tool in adding),
        ],
    )


@dataclass
class Tools:
    """One method for each tool: its docstring and its parameters are what an agent reads."""

    workbench: Workbench
    exporter: Export | None = None
    _device: anyio.Lock = field(default_factory=anyio.Lock)

    async def load_problem(
        self,
        ctx: Context,
        problem: Annotated[str, Field(description="Problem directory, inside the server's roots.")],
        baseline: Annotated[
            str | None,
            Field(
                description="`FILE.cu::function`, a solution.json or its directory; default: PROBLEM/baseline."
            ),
        ] = None,
    ) -> Annotated[CallToolResult, LoadedProblem]:
        """Start a run on a problem: what is computed, the baseline's sources and times, workloads, device, rules.

        The baseline is built and judged first, which takes as long as one bench.
        """
        call = Call()
        run = await self._working(ctx, call, lambda: self.workbench.load(problem, baseline, call))
        answer = wording.loaded(run)
        return _told(answer, wording.loaded_text(run, answer))

    async def diagnose(
        self,
        candidate: Annotated[
            str, Field(description="`baseline`, or the id of a candidate that passed bench.")
        ] = "baseline",
        run: RunName = None,
    ) -> Annotated[CallToolResult, Diagnosed]:
        """Say what limits a kernel: the bottleneck, the counters that say so, and the busiest source lines."""

        def look() -> Diagnosed:
            opened = self.workbench.run(run)
            chosen = opened.candidate(candidate)
            return wording.diagnosed(opened, chosen, opened.diagnose(chosen))

        answer = await _reading(look)
        return _told(answer, wording.diagnosed_text(answer))

    async def verify(
        self, ctx: Context, candidate: CandidateGiven, run: RunName = None
    ) -> Annotated[CallToolResult, Judged]:
        """Judge a candidate without timing it: does it build, is it admitted, correct and safe?

        Hidden workloads are drawn for every verdict. The same sources are judged once: asking again brings the record.
        """
        return await self._judged(ctx, candidate, run, OutsideRun.verify)

    async def bench(
        self, ctx: Context, candidate: CandidateGiven, run: RunName = None
    ) -> Annotated[CallToolResult, Judged]:
        """Judge a candidate as verify does, and time it against the baseline, interleaved.

        A candidate that was verified can be given by its id. The same sources are timed once.
        """
        return await self._judged(ctx, candidate, run, OutsideRun.bench)

    async def confirm(
        self,
        ctx: Context,
        candidate: Annotated[str, Field(description="Id of a candidate that passed bench.")],
        run: RunName = None,
    ) -> Annotated[CallToolResult, Confirmed]:
        """Take a second look at a candidate: new seeds, several timing processes, a control, the safety tools.

        Confirmed, refuted or not established. A candidate gets one second look and a run only a few: use them for what
        you would merge. On a simulated device a candidate can be refuted; a modelled time confirms nothing.
        """
        call = Call()

        def look() -> Confirmed:
            self.workbench.at_work(call)
            opened = self.workbench.run(run)
            event, recorded = opened.confirm(opened.candidate(candidate), call)
            return wording.confirmed(opened, event, recorded)

        answer = await self._working(ctx, call, look)
        return _told(answer, wording.confirmed_text(answer))

    async def history(
        self,
        run: Annotated[
            str | None,
            Field(
                description="An open run, or the directory of any inside the roots; default: the open one."
            ),
        ] = None,
    ) -> Annotated[CallToolResult, HistoryTold]:
        """Tell what was tried in a run and what came of it."""
        answer = await _reading(lambda: wording.told(self.workbench.recorded(run)))
        return _told(answer, wording.told_text(answer))

    async def report(self, run: RunName = None) -> Annotated[CallToolResult, Reported]:
        """Write the report of an open run as far as it is, one page of HTML for people, and tell its verdict."""
        answer = await _reading(lambda: _reported(self.workbench.run(run)))
        return _told(answer, f"{answer.verdict}: {answer.sentence}\n{answer.report}")

    async def finish(
        self, ctx: Context, run: RunName = None
    ) -> Annotated[CallToolResult, Reported]:
        """End a run: the fastest candidate whose second look held is the best; its files and the report are written."""
        call = Call()

        def end() -> Reported:
            opened = self.workbench.run(run)
            self.workbench.end(opened, "finished by the agent")
            return _reported(opened)

        answer = await self._working(ctx, call, end)
        best = answer.best_directory or "no candidate held in a second look"
        return _told(answer, f"{answer.verdict}: {answer.sentence}\n{answer.report}\nbest: {best}")

    async def export(
        self,
        ctx: Context,
        tree: Annotated[
            str, Field(description="The framework's source tree, inside the server's roots.")
        ],
        run: RunName = None,
    ) -> str:
        """Export the best candidate of a finished run as a change of a framework's source tree."""
        export = self.exporter
        assert export is not None, "the tool is there only where it can be carried out"

        def write() -> str:
            opened = self.workbench.run(run)
            if opened.history.finished is None:
                raise UserError("the run goes on; call finish first")
            return export(opened.directory, self.workbench.terms.roots.allowed(tree))

        return await self._working(ctx, Call(step="exporting"), write)

    async def _judged(
        self,
        ctx: Context,
        given: CandidateGiven,
        name: str | None,
        verb: Callable[[OutsideRun, Candidate, Plan, Call], Verdict],
    ) -> CallToolResult:
        call = Call()

        def judge() -> tuple[Judged, Verdict]:
            self.workbench.at_work(call)
            opened = self.workbench.run(name)
            candidate = self.workbench.candidate(opened, given)
            verdict = verb(opened, candidate, plan_of(candidate, given), call)
            return wording.judged(opened, candidate, verdict), verdict

        answer, verdict = await self._working(ctx, call, judge)
        return _told(answer, wording.judged_text(answer, verdict.evaluation))

    async def _working(self, ctx: Context, call: Call, work: Callable[[], _Result]) -> _Result:
        """Work that needs the device, or writes: one at a time."""

        async def tell(seconds: float, words: str) -> None:
            await ctx.report_progress(seconds, None, words)

        try:
            return await carried_out(self._device, call, work, tell)
        except CalledOff:
            raise ToolError("called off") from None
        except AstraError as error:
            raise ToolError(str(error)) from None


async def _reading(read: Callable[[], _Result]) -> _Result:
    """Work that waits for nobody."""
    try:
        return await to_thread.run_sync(read)
    except AstraError as error:
        raise ToolError(str(error)) from None


def _reported(opened: OutsideRun) -> Reported:
    run = read_run(opened.directory, words=False)
    facts = report_of(run.directory.name, run.problem, run.history)
    page = write_page(html(facts), run.directory / REPORT)
    return Reported(
        run=opened.name,
        verdict=facts.verdict.word,
        sentence=facts.verdict.sentence,
        report=str(page),
        best=facts.best,
        best_directory=str(run.directory / BEST) if facts.best else None,
    )


def _told(answer: Record, text: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=answer.model_dump(mode="json"),
    )
