"""Job directories for rogues: a program, its baseline, and workloads small enough for every test run."""

from pathlib import Path

from astra_kernels.jobs.spec import (
    ArgumentSpec,
    InputSpec,
    JobSpec,
    Limits,
    ProgramSpec,
    TensorSpec,
    WorkloadSpec,
    write_spec,
)

from .honest import NORM_REFERENCE, SILU_REFERENCE

_SIZES = {
    "sim": {"even": (4, 256), "odd": (3, 129)},
    "cuda": {"even": (64, 4096), "odd": (7, 1025)},
}
_HIDDEN = {"hidden prime": (5, 257), "hidden other": (9, 520)}
"""Workloads that no rogue's author lists; in real jobs they are drawn after the candidate is frozen."""
_POINTER, _AXIS = ("pointer", "input"), ("int64", "axis")
_ARGUMENTS = {
    "silu": {
        "out": ("pointer", "output"),
        "input": _POINTER,
        "tokens": _AXIS,
        "hidden": _AXIS,
        "stream": ("stream", "stream"),
    },
    "norm": {
        "x": _POINTER,
        "residual": _POINTER,
        "weight": _POINTER,
        "eps": ("float32", "scalar"),
        "tokens": _AXIS,
        "hidden": _AXIS,
        "workspace": ("pointer", "workspace"),
        "stream": ("stream", "stream"),
    },
}
_ROW = ("tokens", "hidden")


def _half(name, shape, **fields):
    return TensorSpec(name=name, dtype="float16", shape=shape, **fields)


_TENSORS = {
    "silu": ((_half("input", ("tokens", "two_hidden")),), (_half("out", _ROW),)),
    "norm": (
        (
            _half("x", _ROW),
            _half("residual", _ROW),
            _half("weight", ("hidden",)),
            TensorSpec(name="eps", dtype="float32", shape=None),
        ),
        (
            _half("x_out", _ROW, in_place_of="x"),
            _half("residual_out", _ROW, in_place_of="residual"),
        ),
    ),
}
_INPUTS = {
    "silu": {"input": InputSpec(type="random")},
    "norm": {
        "x": InputSpec(type="random"),
        "residual": InputSpec(type="random"),
        "weight": InputSpec(type="random"),
        "eps": InputSpec(type="scalar", value=0.01),
    },
}
_ENTRIES = {"silu": "silu_and_mul", "norm": "norm_in_place"}


def stage(job_dir: Path, rogue, device: str) -> Path:
    """Writes the job that judges one rogue on a device."""
    programs = {"baseline": rogue.baseline_files(), "candidate": rogue.files()}
    for directory, files in programs.items():
        (job_dir / directory).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (job_dir / directory / name).write_text(text)
    reference = SILU_REFERENCE if rogue.base == "silu" else NORM_REFERENCE
    (job_dir / "reference.py").write_text(reference)
    write_spec(job_dir, _spec(rogue, device, programs))
    return job_dir


def _spec(rogue, device, programs):
    sizes = dict(_SIZES["cuda" if device.startswith("cuda") else "sim"])
    if rogue.large:
        sizes["large"] = (512, 8192)
    sizes.update(_HIDDEN)
    inputs, outputs = _TENSORS[rogue.base]
    built = {
        name: ProgramSpec(
            directory=name, sources=tuple(files), entry_symbol=_ENTRIES[rogue.base], flags=()
        )
        for name, files in programs.items()
    }
    return JobSpec(
        device=device,
        **built,
        arguments=tuple(
            ArgumentSpec(name=name, kind=kind, ctype=ctype)
            for name, (ctype, kind) in _ARGUMENTS[rogue.base].items()
        ),
        inputs=inputs,
        outputs=outputs,
        workloads=tuple(
            WorkloadSpec(
                uuid=name,
                axes={"tokens": tokens, "hidden": hidden, "two_hidden": 2 * hidden},
                seed=7,
                inputs=_INPUTS[rogue.base],
                timed=name in ("even", "large"),
                hidden=name in _HIDDEN,
                kind=name if name in _HIDDEN else "",
                minimum_bytes=(6 if rogue.base == "silu" else 8) * tokens * hidden,
                workspace_bytes=1 << 16,
            )
            for name, (tokens, hidden) in sizes.items()
        ),
        limits=Limits(
            correctness_s=rogue.limit_s, checked_elements=4_000_000, processes=1, max_rounds=20
        ),
        safety=rogue.tools and device.startswith("cuda"),
    )
