"""The worker's command line: `python -m astra_kernels.jobs JOB...`.

Exit status: 0 when every job has an outcome, 2 for a job that cannot be used, 3 for a missing tool or
package, 4 when the machine failed and the job should be run again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from astra_kernels.errors import AstraError
from astra_kernels.jobs.run_job import run_job


def main(arguments: list[str]) -> int:
    """Runs every job directory in turn; the first that has no outcome ends the run."""
    parser = argparse.ArgumentParser(prog="python -m astra_kernels.jobs", description=__doc__)
    parser.add_argument("jobs", nargs="+", type=Path, metavar="JOB", help="a job directory")
    parser.add_argument("--cache", type=Path, help="keep builds here and share them between jobs")
    options = parser.parse_args(arguments)
    _forget_working_directory()
    for job in options.jobs:
        try:
            outcome = run_job(job, cache_dir=options.cache)
        except AstraError as error:
            which = f"{job}: " if len(options.jobs) > 1 else ""
            print(f"{which}{error}", file=sys.stderr)
            return error.exit_code
        print(f"{job}: {outcome.outcome} in {outcome.wall_s:.1f} s")
    return 0


def _forget_working_directory() -> None:
    """Imports nothing from where the user stands, unless this package lies there."""
    own = Path(__file__).resolve().parents[2]
    here = Path.cwd()
    if here != own:
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
