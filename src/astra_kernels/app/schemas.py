"""JSON Schema, generated from the records."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from astra_kernels.errors import UserError
from astra_kernels.records.definition import Definition
from astra_kernels.records.provenance import Provenance
from astra_kernels.records.run import Event
from astra_kernels.records.solution import Solution
from astra_kernels.records.workload import Workload

_ADAPTERS: dict[str, TypeAdapter[object]] = {
    "definition": TypeAdapter(Definition),
    "workload": TypeAdapter(Workload),
    "solution": TypeAdapter(Solution),
    "provenance": TypeAdapter(Provenance),
    "event": TypeAdapter(Event),
}
RECORDS = tuple(_ADAPTERS)


def schema_text(record: str) -> str:
    """The JSON Schema of `record`, as it stands under docs/schema.

    Raises:
        UserError: for a record that has no schema.
    """
    if record not in _ADAPTERS:
        raise UserError(f"no schema for {record!r}; known: {', '.join(RECORDS)}")
    return json.dumps(_ADAPTERS[record].json_schema(), indent=2)
