"""`astra mcp`: check that the protocol's library is there, then serve until the client goes."""

from __future__ import annotations

from importlib.util import find_spec

from astra_kernels.app.mcp_server.workbench import Terms, Workbench
from astra_kernels.errors import SetupError


def serve(terms: Terms) -> int:
    """Serve the tools on standard input and output, which carry nothing else.

    Raises:
        SetupError: the protocol's library is not installed.
    """
    if find_spec("mcp") is None:
        raise SetupError(
            "astra mcp needs the MCP SDK, which is not installed: pip install 'astra-kernels[mcp]'"
        )
    from astra_kernels.app.mcp_server.server import server_of

    bench = Workbench(terms)
    try:
        server_of(bench).run("stdio")
    finally:
        bench.close()
    return 0
