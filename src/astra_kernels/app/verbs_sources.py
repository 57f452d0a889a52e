"""Verbs between a framework's sources and a problem: in, and back out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from astra_kernels.app.options import (
    ExportFormat,
    ExportOptions,
    JsonOption,
)


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
        out: Directory to write, which is not there yet; default: ENTRY, else the file's name without .cu.
        dtype: Element type where the source leaves it open: float16, bfloat16 or float32.
        check: Try what is guessed on a simulated device.
    """
    from astra_kernels.app import beginnings

    return beginnings.init(kernel, (entry, out, dtype), check=check, as_json=json)


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


def export(
    run: Path,
    *,
    to: Path | None = None,
    out: Path | None = None,
    format: ExportFormat = "patch",
    options: ExportOptions = ExportOptions(),  # noqa: B008 - frozen
    json: JsonOption = False,
) -> int:
    """Make a run's confirmed winner a patch for the framework it was taken out of: `astra export RUN --to ~/vllm`.

    The new code is used for the calls alone that were confirmed. The tree is only read. Ends with 1 where the run has
    no confirmed win or the patch fails a check. `--format flashinfer-bench` writes the run as a dataset of that format
    instead, which needs no tree.

    Args:
        run: Run directory.
        to: The framework's git tree.
        out: Directory to write, which is not there yet; default: RUN/export, or RUN/flashinfer-bench.
        format: What to write.
    """
    from astra_kernels.app import exports

    request = exports.ExportRequest(run, to, out, options, format)
    return exports.export(request, as_json=json)
