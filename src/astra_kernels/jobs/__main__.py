"""The worker's command line: `python -m astra_kernels.jobs JOB...`.

Exit status: 0 when every job has an outcome, 2 for a job that cannot be used, 3 for a missing tool or
package, 4 when the machine failed and the job should be run again.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from pathlib import Path

from astra_kernels.errors import AstraError, MachineFault
from astra_kernels.jobs.run_job import run_job

_DIE_WITH_PARENT = 1


def main(arguments: list[str]) -> int:
    """Runs every job directory in turn; the first that has no outcome ends the run."""
    parser = argparse.ArgumentParser(prog="python -m astra_kernels.jobs", description=__doc__)
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="a job directory")
    parser.add_argument("--cache", type=Path, help="keep builds here and share them between jobs")
    parser.add_argument(
        "--host", type=int, metavar="PID", help="end when this process, the parent, ends"
    )
    options = parser.parse_args(arguments)
    _forget_working_directory()
    if options.host is not None:
        _end_with(options.host)
    for job in options.jobs:
        try:
            outcome = run_job(job, cache_dir=options.cache)
        except AstraError as error:
            which = f"{job}: " if len(options.jobs) > 1 else ""
            print(f"{which}{error}", file=sys.stderr)
            return error.exit_code
        print(f"{job}: {outcome.outcome} in {outcome.wall_s:.1f} s")
    return 0


def _end_with(parent: int) -> None:
    """A host that is killed leaves nobody who wants the result, and a device that others may measure on."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(MachineFault.exit_code)


def _forget_working_directory() -> None:
    """Imports nothing from where the user stands, unless this package lies there."""
    own = Path(__file__).resolve().parents[2]
    here = Path.cwd()
    if here != own:
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
