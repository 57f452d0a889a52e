"""A tool that refuses what it has no parameter for."""

from __future__ import annotations

from collections.abc import Callable

from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase
from mcp_types import ToolAnnotations
from pydantic import ConfigDict, create_model


class _Strict(ArgModelBase):
    model_config = ConfigDict(extra="forbid")


def strict_tool(function: Callable[..., object], annotations: ToolAnnotations) -> Tool:
    """A method as a tool; an argument that it does not have is an error in words.

    The library would drop it: a hypothesis given beside the candidate, and not in it, was lost without a word.
    """
    tool = Tool.from_function(function, annotations=annotations)
    loose = tool.fn_metadata.arg_model
    strict = create_model(loose.__name__, __base__=(_Strict, loose), __module__=loose.__module__)
    metadata = tool.fn_metadata.model_copy(update={"arg_model": strict})
    schema = strict.model_json_schema(by_alias=True)
    return tool.model_copy(update={"fn_metadata": metadata, "parameters": schema})
