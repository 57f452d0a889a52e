"""`astra`: parse, call, render, exit code. Heavy imports wait until a command runs, so that `--help` is quick."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import cyclopts

from astra_kernels import __version__
from astra_kernels.app import verbs_judging, verbs_records, verbs_serving, verbs_sources
from astra_kernels.app.examples import examples_of
from astra_kernels.app.options import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_OK, EXIT_USER
from astra_kernels.errors import AstraError

_DEBUG = "--debug"


def _said(error: cyclopts.CycloptsError) -> str:
    """A mistake on the command line, in the form of every other message."""
    verb = " ".join(("astra", *(error.command_chain or ())))
    said = " ".join(str(error).split())
    if isinstance(error, cyclopts.MissingArgumentError) and error.argument is not None:
        name = error.argument.name
        said = f"{name if error.argument.index is None else name.lstrip('-').upper()} is missing"
    elif not said.endswith("..."):
        said = said.rstrip(".")
    return f"astra: {said}; see {verb} --help"


app = cyclopts.App(
    name="astra",
    version=__version__,
    help="""Make an existing CUDA kernel faster, and prove it.

Exit codes: 0 done (for `optimize` also when no improvement was found); 1 a candidate did not pass;
2 bad input; 3 something is not installed; 4 the machine failed (resume the run); 5 a fault of Astra itself;
130 interrupted (resume the run). `confirm` ends with 0 only for a candidate that is confirmed.

`--debug` behind any command, or `ASTRA_DEBUG=1`, shows where an error is from.""",
    help_format="markdown",
    error_formatter=_said,
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
    verbs_serving.completion,
):
    app.command(_verb, help_epilogue=examples_of(_verb.__name__))


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A request to end is an interruption: workers are stopped and the way to go on is shown."""
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    words = sys.argv[1:]
    debug = _DEBUG in words or os.environ.get("ASTRA_DEBUG", "0") not in ("", "0")
    sys.exit(_ended([word for word in words if word != _DEBUG], debug=debug))


def _ended(words: Sequence[str], *, debug: bool) -> int:
    """The exit code; what went wrong stands on standard error, with a traceback only for `debug`."""
    try:
        code = app(words, result_action="return_value", exit_on_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else EXIT_OK
    except cyclopts.CycloptsError:
        return EXIT_USER  # cyclopts has printed what is wrong
    except KeyboardInterrupt:
        print("astra: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Who reads has enough. Python would flush what is left once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception as error:  # the edge of the process
        if debug:
            raise
        message, code = _failed(error)
        print(f"astra: {message}", file=sys.stderr)
        return code


def _failed(error: Exception) -> tuple[str, int]:
    if isinstance(error, AstraError):
        return str(error), error.exit_code
    if isinstance(error, OSError):
        what = f"{error.filename}: " if error.filename else ""
        return f"{what}{error.strerror or error}", EXIT_MACHINE
    return (
        f"this is a fault of Astra: {type(error).__name__}: {error}. The same command with {_DEBUG} shows where; "
        "please report that. A run that it ended goes on with astra optimize --resume RUN",
        EXIT_FAULT,
    )
