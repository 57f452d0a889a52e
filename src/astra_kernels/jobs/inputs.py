"""Inputs of a workload: drawn from its seed, read from a file, or made by the problem's own function.

They are made by the supervising process; a child gets bytes only, never a seed or this module.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from astra_kernels.errors import SetupError, UserError
from astra_kernels.jobs.elements import FLOAT_FORMATS, numpy_dtype
from astra_kernels.jobs.reference import Reference
from astra_kernels.jobs.spec import InputSpec, JobSpec, TensorSpec, WorkloadSpec
from astra_kernels.records.dtypes import is_floating

Scalar = bool | int | float
Inputs = dict[str, np.ndarray | Scalar]
"""By name: an array of the exact dtype and shape, or a Python scalar already rounded to its dtype."""

_Generator = np.random.Generator
_INFINITE_ONE_IN = 1000
_REPEATED_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class InputSource:
    """Makes the inputs of a job's workloads.

    Attributes:
        spec: the job.
        job_dir: where its data files lie.
        reference: the module with the custom function; None where no input is custom.
        repeating: True makes the first million elements only, for large inputs whose outputs are not
            judged; whoever fills a buffer repeats them.
    """

    spec: JobSpec
    job_dir: Path
    reference: Reference | None = None
    repeating: bool = False

    def make(self, workload: WorkloadSpec) -> Inputs:
        """Makes every input of `workload`, in the order of the definition.

        Raises:
            UserError: a file, a value or the custom function does not fit the definition.
            SetupError: a package that the element type or the file format needs is missing.
        """
        if any(source.type == "custom" for source in workload.inputs.values()):
            if self.reference is None:
                raise UserError(f"workload {workload.uuid}: custom inputs need the reference")
            return _custom(self.spec, workload, self.reference)
        return {tensor.name: self._one(tensor, workload) for tensor in self.spec.inputs}

    def _one(self, tensor: TensorSpec, workload: WorkloadSpec) -> np.ndarray | Scalar:
        source = workload.inputs[tensor.name]
        if tensor.shape is None:
            if source.value is None:
                raise UserError(f"workload {workload.uuid}: scalar {tensor.name!r} has no value")
            rounded = round_scalar(source.value, tensor.dtype)
            if not math.isfinite(rounded):
                raise UserError(
                    f"workload {workload.uuid}: scalar {tensor.name!r} is {source.value!r}, which {tensor.dtype} cannot hold"
                )
            return rounded
        shape = shape_of(tensor, workload.axes)
        if source.type == "safetensors":
            return _stored(tensor, source, shape, self.job_dir)
        random = _random(workload, tensor)
        if self.repeating and math.prod(shape) > _REPEATED_ELEMENTS:
            shape = (_REPEATED_ELEMENTS,)
        return draw(random, tensor.dtype, shape, source.distribution)


def _random(workload: WorkloadSpec, tensor: TensorSpec) -> _Generator:
    seed = np.random.SeedSequence([workload.seed, zlib.crc32(tensor.name.encode())])
    return np.random.Generator(np.random.PCG64(seed))


def shape_of(tensor: TensorSpec, axes: Mapping[str, int]) -> tuple[int, ...]:
    """The concrete shape of `tensor`; a scalar has none and counts as 0-d."""
    return tuple(axes[axis] for axis in tensor.shape or ())


def round_scalar(value: Scalar, dtype: str) -> Scalar:
    """`value` as the kernel gets it: rounded to `dtype`, as a Python scalar."""
    if dtype == "bool":
        return bool(value)
    if not is_floating(dtype):
        return int(value)
    with np.errstate(over="ignore"):  # what becomes infinite is for the caller to refuse
        return float(np.asarray(value, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))


def draw(
    random: _Generator, dtype: str, shape: tuple[int, ...], distribution: str | None
) -> np.ndarray:
    """Draws an array; `distribution` None is normal for floats and uniform for the rest.

    Raises:
        UserError: an unknown distribution.
    """
    if dtype == "bool":
        table: Mapping[str, _Maker] = _BOOLEAN
    else:
        table = _FLOATING if is_floating(dtype) else _INTEGER
    name = distribution or ("normal" if is_floating(dtype) else "uniform")
    if name not in table:
        raise UserError(f"unknown distribution {name!r}; known are {', '.join(_FLOATING)}")
    return np.asarray(table[name](random, dtype, shape), numpy_dtype(dtype), order="C")


_Maker = Callable[[_Generator, str, tuple[int, ...]], np.ndarray]


def _wide(dtype: str) -> type[np.float32] | type[np.float64]:
    """The type that values are drawn in."""
    return np.float64 if dtype == "float64" else np.float32


def _normal(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return random.standard_normal(shape, dtype=_wide(dtype))


def _uniform(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(2 * random.random(shape, dtype=_wide(dtype)) - 1)


def _signs(random: _Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 1 - 2 * random.integers(0, 2, shape, dtype=np.int8)


def _large(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    magnitude = FLOAT_FORMATS[dtype].largest * 2.0 ** (-4 * random.random(shape))
    return np.asarray(magnitude * _signs(random, shape))


def _small(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    magnitude = FLOAT_FORMATS[dtype].smallest_normal * 2.0 ** (4 * random.random(shape))
    return np.asarray(magnitude * _signs(random, shape))


def _denormal(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    form = FLOAT_FORMATS[dtype]
    steps = random.integers(1, 1 << form.fraction_bits, shape)
    tiny = np.ldexp(steps.astype(np.float64), form.min_exponent - form.fraction_bits)
    mixed = np.where(random.random(shape) < 0.5, tiny, random.standard_normal(shape))
    return np.asarray(mixed * _signs(random, shape))


def _infinities(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values with one in a thousand infinite (the largest finite where there is no infinity)."""
    values = np.asarray(_normal(random, dtype, shape))
    if values.size:
        places = random.integers(0, values.size, max(1, values.size // _INFINITE_ONE_IN))
        form = FLOAT_FORMATS[dtype]
        extreme = np.inf if form.has_infinity else form.largest
        values.reshape(-1)[places] = extreme * _signs(random, places.shape)
    return values


def _nans(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values with one in a thousand not a number, and as many zeros of either sign."""
    values = np.asarray(_normal(random, dtype, shape))
    if values.size:
        count = max(1, values.size // _INFINITE_ONE_IN)
        flat = values.reshape(-1)
        zeros = random.integers(0, values.size, count)
        flat[zeros] = 0.0 * _signs(random, zeros.shape)
        flat[random.integers(0, values.size, count)] = np.nan
    return values


def _constant_rows(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rows = _normal(random, dtype, (*shape[:-1], 1) if shape else ())
    return np.broadcast_to(rows, shape)


def _scaled_rows(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, each row times a power of two that the type holds well, from tiny to moderate."""
    form = FLOAT_FORMATS[dtype]
    lowest = max(form.min_exponent, -24)
    exponents = random.integers(lowest, 4, (*shape[:-1], 1) if shape else ())
    return np.asarray(_normal(random, dtype, shape) * np.exp2(exponents.astype(np.float32)))


def _extremes(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Few values, far apart, so that several inputs often meet in the same one; one in eight is the lowest there is."""
    form = FLOAT_FORMATS[dtype]
    values = np.array([-80.0, -1.0, 0.0, 0.5, 1.0, 80.0])[random.integers(0, 6, shape)]
    lowest = -np.inf if form.has_infinity else -form.largest
    return np.where(random.random(shape) < 1 / 8, lowest, values)


def _rare_made_common(random: _Generator, values: np.ndarray) -> np.ndarray:
    """Replaces every other element by the tensor's own lowest, infinite or highest, if it holds an infinity."""
    wide = values.astype(np.float64)
    if not np.isinf(wide).any():
        return values
    finite = wide[np.isfinite(wide)]
    ends = [finite.min(), finite.max()] if finite.size else []
    table = np.array([*np.unique(wide[np.isinf(wide)]), *ends]).astype(values.dtype)
    drawn = table[random.integers(0, table.size, values.shape)]
    return np.where(random.random(values.shape) < 0.5, drawn, values)


def _of_rank(values: np.ndarray) -> np.ndarray:
    return np.sort(values, axis=-1) if values.ndim else values


_FLOATING: Mapping[str, _Maker] = {
    "normal": _normal,
    "uniform": _uniform,
    "zeros": lambda random, dtype, shape: np.zeros(shape),
    "ones": lambda random, dtype, shape: np.ones(shape),
    "large": _large,
    "small": _small,
    "denormal": _denormal,
    "infinities": _infinities,
    "nans": _nans,
    "ties": lambda random, dtype, shape: random.integers(-4, 5, shape) / 2,
    "sorted": lambda random, dtype, shape: _of_rank(np.asarray(_normal(random, dtype, shape))),
    "constant_rows": _constant_rows,
    "scaled_rows": _scaled_rows,
    "extremes": _extremes,
}


def _any_integer(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    range_ = np.iinfo(dtype)
    return random.integers(range_.min, range_.max, shape, dtype=dtype, endpoint=True)


def _near_limit(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    largest = int(np.iinfo(dtype).max)
    values = largest - random.integers(0, 16, shape)
    return np.asarray(values if _is_unsigned(dtype) else values * _signs(random, shape))


def _few(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, 4, shape)


def _is_unsigned(dtype: str) -> bool:
    """Whether an integer type holds no negative numbers."""
    return int(np.iinfo(dtype).min) == 0


def _bell(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers around 0; their absolute values where there are no negative ones."""
    values = np.rint(4 * random.standard_normal(shape))
    return np.abs(values) if _is_unsigned(dtype) else values


_INTEGER: Mapping[str, _Maker] = {
    "normal": _bell,
    "uniform": _any_integer,
    "zeros": lambda random, dtype, shape: np.zeros(shape, dtype),
    "ones": lambda random, dtype, shape: np.ones(shape, dtype),
    "large": _near_limit,
    "small": lambda random, dtype, shape: random.integers(0, 2, shape),
    "denormal": _few,
    "infinities": _near_limit,
    "nans": _near_limit,
    "ties": _few,
    "sorted": lambda random, dtype, shape: _of_rank(_any_integer(random, dtype, shape)),
    "constant_rows": lambda random, dtype, shape: np.broadcast_to(
        _any_integer(random, dtype, (*shape[:-1], 1) if shape else ()), shape
    ),
    "scaled_rows": _bell,
    "extremes": _near_limit,
}


def _coin(random: _Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, 2, shape, dtype=np.uint8)


_BOOLEAN: Mapping[str, _Maker] = {
    **dict.fromkeys(_FLOATING, _coin),
    "zeros": lambda random, dtype, shape: np.zeros(shape),
    "ones": lambda random, dtype, shape: np.ones(shape),
    "sorted": lambda random, dtype, shape: _of_rank(np.asarray(_coin(random, dtype, shape))),
    "constant_rows": lambda random, dtype, shape: np.broadcast_to(
        _coin(random, dtype, (*shape[:-1], 1) if shape else ()), shape
    ),
}


def _stored(
    tensor: TensorSpec, source: InputSpec, shape: tuple[int, ...], job_dir: Path
) -> np.ndarray:
    where = f"{source.path}: {source.tensor_key}"
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise SetupError(
            f"{where} needs the package safetensors: pip install safetensors"
        ) from error
    data = (job_dir / "data").resolve()
    path = (data / str(source.path)).resolve()
    if not path.is_relative_to(data) or not path.is_file():
        raise UserError(
            f"input {tensor.name!r}: no file {source.path!r} in the job's data directory"
        )
    numpy_dtype(tensor.dtype)  # imports ml_dtypes, which safetensors needs for the same types
    try:
        with safe_open(str(path), framework="numpy") as file:
            values: np.ndarray = file.get_tensor(str(source.tensor_key))
    except (SafetensorError, OSError) as error:
        raise UserError(f"input {tensor.name!r}: {where}: {error}") from error
    return _fitting(tensor, values, shape, where)


def _custom(spec: JobSpec, workload: WorkloadSpec, reference: Reference) -> Inputs:
    name = spec.custom_inputs_entrypoint
    if name is None:
        raise UserError(f"workload {workload.uuid}: custom inputs, but no custom_inputs_entrypoint")
    made: Any = reference.custom_inputs(name, dict(workload.axes), workload.seed)
    if not isinstance(made, Mapping):
        raise UserError(f"{name}: must return a dict of inputs by name")
    inputs: Inputs = {}
    for tensor in spec.inputs:
        if tensor.name not in made:
            raise UserError(f"{name}: returned no input {tensor.name!r}")
        value = made[tensor.name]
        if tensor.shape is None:
            inputs[tensor.name] = round_scalar(value, tensor.dtype)
            if not math.isfinite(float(inputs[tensor.name])):
                raise UserError(
                    f"{name}: scalar {tensor.name!r} is {value!r}, not finite in {tensor.dtype}"
                )
        else:
            values = reference.to_numpy(value)
            fitting = _fitting(tensor, values, shape_of(tensor, workload.axes), name)
            if workload.inputs[tensor.name].distribution and is_floating(tensor.dtype):
                fitting = _rare_made_common(_random(workload, tensor), fitting)
            inputs[tensor.name] = fitting
    return inputs


def _fitting(
    tensor: TensorSpec, values: np.ndarray, shape: tuple[int, ...], where: str
) -> np.ndarray:
    if values.shape != shape or values.dtype != numpy_dtype(tensor.dtype):
        raise UserError(
            f"input {tensor.name!r}: {where} is {values.dtype} {values.shape}, "
            f"the definition wants {tensor.dtype} {shape}"
        )
    return np.asarray(values, order="C")
