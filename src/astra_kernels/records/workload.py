"""One concrete instance of a definition: axis sizes and where each input's values come from."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, field_validator, model_validator

from astra_kernels.records.base import Record
from astra_kernels.records.definition import Definition, Tolerance

Distribution = Literal[
    "normal",
    "uniform",
    "zeros",
    "ones",
    "large",
    "small",
    "denormal",
    "infinities",
    "nans",
    "ties",
    "sorted",
    "constant_rows",
]
"""Kinds of random values. `normal` has unit variance; `large` and `small` are near the limits of what the operator's float type
holds; `denormal` mixes subnormals in; `infinities` sets a few elements to ±inf,
`nans` to NaN; `ties` draws from few distinct values."""


class RandomInput(Record):
    """Values drawn by the evaluator from a seed of its own."""

    type: Literal["random"] = "random"
    distribution: Distribution | None = None
    """*(extension)*; default: `normal` for floats, uniform over the legal range otherwise."""


class ScalarInput(Record):
    """A scalar given in the workload."""

    type: Literal["scalar"] = "scalar"
    value: bool | int | float


class SafetensorsInput(Record):
    """A tensor stored in a file beside the problem."""

    type: Literal["safetensors"] = "safetensors"
    path: str
    tensor_key: str

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        if ".." in PurePosixPath(value).parts:
            raise ValueError(f"path {value!r} leaves the problem directory")
        return value


class CustomInput(Record):
    """Made, with all others of the workload, by the definition's `custom_inputs_entrypoint`."""

    type: Literal["custom"] = "custom"


InputSource = Annotated[
    RandomInput | ScalarInput | SafetensorsInput | CustomInput, Field(discriminator="type")
]


class Workload(Record):
    """Axis sizes and input sources under one identifier."""

    uuid: str = Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e\u00a1-\U0010ffff]+$")
    """Printable text: it goes to terminals and file names."""
    axes: dict[str, StrictInt]
    inputs: dict[str, InputSource]
    tolerance: Tolerance | None = None
    timed: bool = True
    """Whether the workload counts for time; workloads that the testing agent proposes are checked only *(extension)*."""

    weight: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """How often the workload is served, relative to the others *(extension)*; workloads without one count 1 if any has one."""

    @model_validator(mode="after")
    def _custom_is_all_or_nothing(self) -> Self:
        custom = [n for n, s in self.inputs.items() if isinstance(s, CustomInput)]
        if custom and len(custom) != len(self.inputs):
            raise ValueError(f"inputs.{custom[0]}: custom inputs cannot be mixed with other kinds")
        return self

    def check_against(self, definition: Definition) -> None:
        """Check sizes and sources against `definition`.

        Raises:
            ValueError: naming the field that does not fit.
        """
        definition.resolve_axes(self.axes)
        if missing := definition.inputs.keys() - self.inputs.keys():
            raise ValueError(f"inputs: no source for {sorted(missing)[0]!r}")
        if unknown := self.inputs.keys() - definition.inputs.keys():
            raise ValueError(
                f"inputs: {sorted(unknown)[0]!r} is not an input of {definition.name!r}"
            )
        for name, source in self.inputs.items():
            scalar = definition.inputs[name].shape is None
            if isinstance(source, ScalarInput) != scalar and not isinstance(source, CustomInput):
                kind = (
                    "a scalar: give {type: scalar, value}"
                    if scalar
                    else "a tensor: a scalar value does not fit"
                )
                raise ValueError(f"inputs.{name}: the input is {kind}")
            if isinstance(source, CustomInput) and definition.custom_inputs_entrypoint is None:
                raise ValueError(
                    f"inputs.{name}: custom, but the definition has no custom_inputs_entrypoint"
                )
