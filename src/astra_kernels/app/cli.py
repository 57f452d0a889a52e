"""`astra`: parse, call, render, exit code. Heavy imports wait until a command runs, so that `--help` is quick."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import cyclopts
from cyclopts import Parameter

from astra_kernels import __version__
from astra_kernels.app.options import BudgetOptions, ExportOptions, ModelOptions, SearchOptions
from astra_kernels.errors import AstraError

EXIT_OK = 0
EXIT_NOT_PASSED = 1
EXIT_USER = 2
EXIT_INTERRUPTED = 130

app = cyclopts.App(
    name="astra",
    version=__version__,
    help="""Make an existing CUDA kernel faster, and prove it.

Exit codes: 0 done (for `optimize` also when no improvement was found); 1 a candidate did not pass;
2 bad input; 3 something is not installed; 4 the machine failed (resume the run); 130 interrupted
(resume the run). `confirm` ends with 0 only for a candidate that is confirmed.""",
    help_format="markdown",
    suppress_keyboard_interrupt=False,  # `main` says so, and gives the exit code
)

DeviceOption = Annotated[
    str | None,
    Parameter(
        help="`cuda:N` or a simulated GPU such as `sim:h200`; default: `cuda:0` if there is one, else `sim:h200`."
    ),
]
BaselineOption = Annotated[
    str | None,
    Parameter(
        help="Baseline as `FILE.cu::function`, a solution.json, or its directory; default: PROBLEM/baseline."
    ),
]
JsonOption = Annotated[
    bool, Parameter(name="--json", negative="", help="Print JSON on standard output.")
]
EvaluatorOption = Annotated[
    str,
    Parameter(
        help="Where jobs run: `local`, or `spool:DIR`, which writes them to DIR for `astra worker --spool DIR` on another"
        " machine; the device is then that machine's, by default `cuda:0`."
    ),
]
SpoolTimeoutOption = Annotated[
    float | None,
    Parameter(help="Seconds to wait for one result of a spool; default: for ever."),
]
SeedOption = Annotated[int, Parameter(help="Seed of the inputs.")]


@app.command
def optimize(
    problem: Path | None = None,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    models: ModelOptions = ModelOptions(),  # noqa: B008 - frozen
    search: SearchOptions = SearchOptions(),  # noqa: B008
    budget: BudgetOptions = BudgetOptions(),  # noqa: B008
    run: Path | None = None,
    resume: Path | None = None,
    seed: SeedOption = 0,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Search for a faster kernel: `astra optimize examples/silu_and_mul`.

    Without a model, rules plan and source rewrites carry out. With one (`--model anthropic:NAME`, `cli:claude`,
    `manual:DIR`), language models do.

    Args:
        problem: Problem directory.
        run: Directory for the run's log and results; default: runs/NAME-TIME.
        resume: Go on with this run, with the budget it was started with.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    if problem is None and resume is None:
        print("astra optimize: give a PROBLEM, or --resume RUN", file=sys.stderr)
        return EXIT_USER
    chosen = problem, device, baseline, models, search, budget, run, seed
    usual = None, None, None, ModelOptions(), SearchOptions(), BudgetOptions(), None, 0
    if resume is not None and chosen != usual:
        print(
            "astra optimize: --resume goes on with what the run was started with; give no PROBLEM, models, search or budget",
            file=sys.stderr,
        )
        return EXIT_USER
    where = Whereabouts.parse(evaluator, spool_timeout)
    if resume is not None:
        return commands.resume(resume, where, as_json=json)
    assert problem is not None
    settings = {**vars(models), **vars(search), "seed": seed}
    settings["keep_best"] = not settings.pop("replace_always")
    request = commands.OptimizeRequest(
        problem=problem,
        baseline=baseline,
        run=run,
        device=device,
        settings=settings,
        budget=vars(budget),
        where=where,
    )
    return commands.optimize(request, as_json=json)


@app.command
def verify(
    problem: Path,
    candidate: Path,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    seed: SeedOption = 0,
    safety: Annotated[bool, Parameter(negative="")] = False,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Judge one candidate: does it build, is it admitted, correct and safe?

    Args:
        problem: Problem directory.
        candidate: A source file in place of the baseline's, a directory of sources, or a solution.json.
        safety: On a GPU, run it under compute-sanitizer's tools as well.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, (candidate,), baseline, device, where, seed, safety)
    return commands.verify(request, as_json=json)


@app.command
def confirm(
    problem: Path,
    candidate: Path,
    *,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Is it correct, safe and faster? Judge one candidate as `optimize` judges its winner.

    New processes and inputs from seeds that are drawn now; several timing processes; the baseline against
    itself as a control; the safety tools; a second GPU where there is one. Ends with 0 when the candidate
    is confirmed, with 1 when it is refuted or nothing is established. On a simulated device it can be
    refuted, but a modelled time confirms nothing.

    Args:
        problem: Problem directory.
        candidate: A source file in place of the baseline's, a directory of sources, or a solution.json.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, (candidate,), baseline, device, where)
    return commands.confirm(request, as_json=json)


@app.command
def bench(
    problem: Path,
    *candidates: Path,
    device: DeviceOption = None,
    baseline: BaselineOption = None,
    seed: SeedOption = 0,
    evaluator: EvaluatorOption = "local",
    spool_timeout: SpoolTimeoutOption = None,
    json: JsonOption = False,
) -> int:
    """Judge and time candidates against the baseline, interleaved; without candidates, the baseline against itself.

    Args:
        problem: Problem directory.
        candidates: Source files, directories of sources, or solution.json files.
    """
    from astra_kernels.app import commands
    from astra_kernels.app.compose import Whereabouts

    where = Whereabouts.parse(evaluator, spool_timeout)
    request = commands.JudgeRequest(problem, candidates, baseline, device, where, seed)
    return commands.bench(request, as_json=json)


@app.command
def init(
    kernel: Path,
    *,
    entry: str | None = None,
    out: Path | None = None,
    dtype: str = "float16",
    check: bool = True,
    json: JsonOption = False,
) -> int:
    """Make a problem directory from one file: `astra init scale.cu`, `astra init norm.cu --entry rms_norm --out problem`.

    The entry point is an `extern "C"` launcher, a host function that launches, or a kernel, for which a launcher is
    generated. Shapes, outputs and sizes are read off the signature or guessed, tried on a simulated device, and said.

    Args:
        kernel: The source file.
        entry: The function, where the file has several.
        out: Directory to write, which is not there yet; default: the entry point's name.
        dtype: Element type where the source leaves it open: float16, bfloat16 or float32.
        check: Try what is guessed on a simulated device.
    """
    from astra_kernels.app import beginnings

    return beginnings.init(kernel, (entry, out, dtype), check=check, as_json=json)


@app.command
def extract(
    symbol: str,
    *,
    from_: Annotated[str, Parameter(name="--from")],
    out: Path | None = None,
    at: str | None = None,
    dtype: str = "float16",
    dirty: bool = False,
    compare: bool = False,
    check: bool = True,
    json: JsonOption = False,
) -> int:
    """Take an operator out of a framework's sources, as a problem directory: `astra extract rmsnorm --from flashinfer`.

    `astra extract silu_and_mul --from ~/vllm --at csrc/activation_kernels.cu:140 --out problem`. The operator keeps its
    signature; the headers that it needs, licences and a record of where everything is from come along.

    Args:
        symbol: An exported operator, a host function, or a kernel.
        from_: A directory of sources, or an installed package.
        out: Directory to write, which is not there yet; default: the symbol's name.
        at: `FILE:LINE` of the definition, where several have the name.
        dtype: Element type where the source leaves it open: float16, bfloat16 or float32.
        dirty: Take files that are not as the repository's commit has them; no commit is named then.
        compare: Build the whole original too, and compare machine code and outputs with it.
        check: Try the problem on a simulated device, and compare the reference with the kernel.
    """
    from astra_kernels.app import beginnings

    asked = beginnings.Asked(symbol, from_, out, at, dtype, dirty, compare)
    return beginnings.extract(asked, check=check, as_json=json)


@app.command
def export(
    run: Path,
    *,
    to: Path,
    out: Path | None = None,
    options: ExportOptions = ExportOptions(),  # noqa: B008 - frozen
    json: JsonOption = False,
) -> int:
    """Make a run's confirmed winner a patch for the framework it was taken out of: `astra export RUN --to ~/vllm`.

    The new code is used for the calls alone that were confirmed. The tree is only read. Ends with 1 where the run has
    no confirmed win or the patch fails a check.

    Args:
        run: Run directory.
        to: The framework's git tree.
        out: Directory to write, which is not there yet; default: RUN/export.
    """
    from astra_kernels.app import exports

    request = exports.ExportRequest(run, to, out, options)
    return exports.export(request, as_json=json)


@app.command
def show(run: Path, *, json: JsonOption = False) -> int:
    """Show what a run tried, and what came of it.

    Args:
        run: Run directory.
    """
    from astra_kernels.app import commands

    return commands.show(run, as_json=json)


@app.command
def report(
    run: Path,
    *,
    out: Path | None = None,
    markdown: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write what a run established as one page of HTML: `astra report runs/NAME`.

    The page opens from disk, fetches nothing and prints. A run that has not ended is reported as far as it is.

    Args:
        run: Run directory.
        out: File to write; default: RUN/report.html, or with --markdown standard output.
        markdown: Write Markdown instead, for a pull request.
    """
    from astra_kernels.app import reports

    return reports.report(run, out, as_markdown=markdown)


@app.command
def runs(folder: Path = Path("runs"), *, json: JsonOption = False) -> int:
    """List runs, newest first: problem, device, verdict, gain, cost.

    Args:
        folder: Directory that holds run directories.
    """
    from astra_kernels.app import reports

    return reports.runs(folder, as_json=json)


@app.command
def replay(run: Path) -> int:
    """Run a recorded run again from its own record: no network, no device. Ends with 1 where it decides otherwise.

    What models were asked and answered, and what every candidate got, is read from the record. A prompt that has
    changed since is a divergence: it is shown, not answered from an old reply.

    Args:
        run: Run directory.
    """
    from astra_kernels.app import commands

    return commands.replay_run(run)


@app.command
def doctor(*, json: JsonOption = False) -> int:
    """Say what is installed, which device would be used, and what to do about each gap."""
    from astra_kernels.app import doctor as examination

    return examination.run(as_json=json)


@app.command
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


@app.command
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


@app.command
def schema(
    record: Annotated[str, Parameter(help="definition, workload, solution, provenance or event.")],
) -> int:
    """Print the JSON Schema of a record."""
    from astra_kernels.app import schemas

    print(schemas.schema_text(record))
    return EXIT_OK


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A request to end is an interruption: workers are stopped and the way to go on is shown."""
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(result_action="return_value", exit_on_error=False)
    except cyclopts.CycloptsError:
        code = EXIT_USER  # cyclopts has printed what is wrong
    except AstraError as error:
        print(f"astra: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        print("astra: interrupted", file=sys.stderr)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        code = EXIT_OK
    sys.exit(code if isinstance(code, int) else EXIT_OK)
