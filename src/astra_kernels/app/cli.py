"""`astra`: parse, call, render, exit code. Heavy imports wait until a command runs, so that `--help` is quick."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

import cyclopts

from astra_kernels import __version__
from astra_kernels.app import verbs_judging, verbs_records, verbs_serving, verbs_sources
from astra_kernels.app.options import EXIT_INTERRUPTED, EXIT_OK, EXIT_USER
from astra_kernels.errors import AstraError

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

for _verb in (
    verbs_judging.optimize,
    verbs_judging.verify,
    verbs_judging.confirm,
    verbs_judging.bench,
    verbs_sources.init,
    verbs_sources.extract,
    verbs_sources.export,
    verbs_records.show,
    verbs_records.report,
    verbs_records.runs,
    verbs_records.replay,
    verbs_records.schema,
    verbs_serving.doctor,
    verbs_serving.worker,
    verbs_serving.mcp,
):
    app.command(_verb)


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
