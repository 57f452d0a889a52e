"""Verbs of machines and of other programs: what is installed, jobs from elsewhere, agents from outside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from astra_kernels.app.options import (
    EXIT_OK,
    EXIT_USER,
    DeviceOption,
    EvaluatorOption,
    JsonOption,
    SpoolTimeoutOption,
)


def doctor(*, json: JsonOption = False) -> int:
    """Say what is installed, which device would be used, and what to do about each gap."""
    from astra_kernels.app import doctor as examination

    return examination.run(as_json=json)


def worker(
    *jobs: Path,
    spool: Path | None = None,
    once: Annotated[bool, Parameter(negative="")] = False,
    drain: Annotated[bool, Parameter(negative="")] = False,
    device: str | None = None,
    cache: Path | None = None,
) -> int:
    """Evaluate staged job directories on this machine, or the jobs of a spool as they come.

    Args:
        jobs: Job directories, each with a job.json.
        spool: Take jobs from this directory, which `--evaluator spool:DIR` writes, and put their results there.
        once: With --spool: end after one job.
        drain: With --spool: end when nothing is left to do.
        device: With --spool: run the jobs for this kind of device on this one, such as `cuda:1`.
        cache: Keep builds here and share them between jobs.
    """
    shared = [] if cache is None else ["--cache", str(cache)]
    if spool is None:
        from astra_kernels.jobs.__main__ import main as work

        if once or drain or device is not None or not jobs:
            print("astra worker: give JOB directories, or --spool DIR", file=sys.stderr)
            return EXIT_USER
        return work([*map(str, jobs), *shared])
    if jobs:
        print("astra worker: give JOB directories or --spool DIR, not both", file=sys.stderr)
        return EXIT_USER
    from astra_kernels.jobs.worker import main as serve

    flags = [f"--{name}" for name, given in (("once", once), ("drain", drain)) if given]
    chosen = [] if device is None else ["--device", device]
    return serve(["--spool", str(spool), *flags, *chosen, *shared])


def mcp(
    *,
    root: Annotated[
        tuple[Path, ...], Parameter(negative="", consume_multiple=True, show_default=False)
    ] = (Path(),),
    device: DeviceOption = None,
    runs: Path = Path("runs"),
    confirmations: int = 3,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
) -> int:
    """Serve a coding agent: it decides what to try, Astra judges. Standard input and output speak the Model Context Protocol.

    Claude Code, Codex or Cursor start it; see docs/mcp.md. What an agent asks is appended to a run, which `show` and
    `report` read like any other.

    Args:
        root: Directories that the agent's tools may read; default: the current one.
        runs: Directory in which runs are made.
        confirmations: Candidates of a run that may get a second look.
    """
    from astra_kernels.app.compose import Whereabouts
    from astra_kernels.app.mcp_server.roots import Roots
    from astra_kernels.app.mcp_server.serving import serve
    from astra_kernels.app.mcp_server.workbench import Terms

    where = Whereabouts.parse(evaluator, spool_timeout)
    chosen = device or where.default_device()
    return serve(Terms(Roots.of(root), chosen, runs.resolve(), confirmations, where))


def completion(shell: Literal["bash", "zsh", "fish"]) -> int:
    """Print what a shell needs to complete commands and options of `astra`. No file is changed.

    Args:
        shell: Which shell.
    """
    from astra_kernels.app.cli import app

    print(app.generate_completion(prog_name="astra", shell=shell))
    return EXIT_OK
