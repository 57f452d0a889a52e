"""A real client over standard input and output, used from tests without an event loop."""

import json
import os
import sys
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from tests.app.conftest import FILES

if find_spec("mcp") is None:  # an extra; development tools bring it
    collect_ignore_glob = ["test_*.py"]
else:
    import mcp


@dataclass
class Talk:
    """One client of one server."""

    portal: object
    client: object
    log: Path
    """What the server says on standard error."""
    progress: list = field(default_factory=list)

    def start(self, tool, **arguments) -> Future:
        """Call a tool; the future holds its result."""

        async def heard(progress, total, message):
            self.progress.append((progress, message))

        async def call():
            return await self.client.call_tool(tool, arguments, progress_callback=heard)

        return self.portal.start_task_soon(call)

    def call(self, tool, **arguments):
        return self.start(tool, **arguments).result(timeout=300)

    def answer(self, tool, **arguments):
        """The structured answer of a call that has to succeed."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        assert result.content[0].text
        return result.structured_content

    def fault(self, tool, **arguments):
        """The words of a call that has to fail."""
        result = self.call(tool, **arguments)
        assert result.is_error, result.structured_content
        (content,) = result.content
        return content.text

    def tools(self):
        return {t.name: t for t in self.portal.call(self.client.list_tools).tools}


@contextmanager
def talking(directory, *options):
    """A server that was started with `options` in `directory`, and a client."""
    log = directory / "server.log"
    with ExitStack() as stack:
        parameters = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "astra_kernels", "mcp", "--device", "sim:h200", *map(str, options)],
            env=dict(os.environ),
            cwd=directory,
        )
        stream = stack.enter_context(log.open("w"))
        portal = stack.enter_context(start_blocking_portal())
        client = mcp.Client(mcp.stdio_client(parameters, errlog=stream))
        opened = stack.enter_context(portal.wrap_async_context_manager(client))
        yield Talk(portal, opened, log)
    assert "Traceback" not in log.read_text(), log.read_text()


def write_sigmoid(root):
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def events(directory):
    return [
        json.loads(line) for line in (Path(directory) / "events.jsonl").read_text().splitlines()
    ]
