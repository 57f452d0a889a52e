"""`astra mcp`: check that the protocol's library is there, then serve until the client goes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from astra_kernels.app.mcp_server.workbench import Terms, Workbench
from astra_kernels.errors import SetupError

_INTERRUPTED = 130


def serve(terms: Terms) -> int:
    """Serve the tools on standard input and output, which carry nothing else.

    An interrupt ends the process from here.

    Raises:
        SetupError: the protocol's library is not installed.
    """
    if find_spec("mcp") is None:
        raise SetupError(
            "astra mcp needs the MCP SDK, which is not installed: pip install 'astra-kernels[mcp]'"
        )
    from astra_kernels.app.exports import patch_in_words
    from astra_kernels.app.mcp_server.server import server_of

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    bench = Workbench(terms)
    interrupted = False
    try:
        server_of(bench, patch_in_words).run("stdio")
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bench.close()
    if interrupted:
        print("astra: interrupted", file=sys.stderr, flush=True)
        # A thread waits for the client's next line: nothing wakes it, and Python would wait for it.
        os._exit(_INTERRUPTED)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """At once, as the event loop's own handler would not: that one waits for the client's next line.

    What the libraries then say of tasks that were cut short tells a client nothing.
    """
    logging.disable()
    raise KeyboardInterrupt
