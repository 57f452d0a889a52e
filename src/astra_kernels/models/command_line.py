"""`cli:COMMAND`: any command that takes a prompt on standard input and prints an answer, for one Claude Code or Codex."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic_ai.exceptions import ModelAPIError

from astra_kernels.errors import ModelRejected, SetupError, UserError
from astra_kernels.json_text import parse_json
from astra_kernels.models.bounded_process import Printed, run_bounded
from astra_kernels.models.text_model import Reply, TextModel
from astra_kernels.models.transcript import as_prompt
from astra_kernels.records.model_calls import Message

Format = Literal["text", "claude", "codex"]

_CLAUDE = (
    "claude", "-p", "--output-format", "json", "--tools", "", "--strict-mcp-config", "--no-session-persistence",
)  # fmt: skip
_CODEX = (
    "codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", "--ephemeral",
)  # fmt: skip
_KEPT = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "TERM", "TMPDIR")
_KEPT_BEGINNINGS = ("XDG_", "LC_")
_OWN: dict[Format, tuple[str, ...]] = {
    "claude": ("ANTHROPIC_", "CLAUDE_"),
    "codex": ("OPENAI_", "CODEX_"),
    "text": (),
}
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_ENVELOPE_BYTES = 1 << 20
"""Room for what surrounds an answer: JSON, and the events of Codex."""
_LOGGED_OUT = re.compile(
    r"log ?in\b|logged in|api key|unauthori[sz]ed|authenticat|credit balance", re.I
)


@dataclass(frozen=True)
class Command:
    """A command that answers."""

    words: tuple[str, ...]
    format: Format

    @staticmethod
    def read(text: str, path: str | None) -> Command:
        """What the user wrote after `cli:`.

        Raises:
            UserError: it is no command line.
            SetupError: its program is not installed.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UserError(f"cli:{text}: {error}") from None
        if not words:
            raise UserError("cli: names no command; write cli:claude, cli:codex or cli:COMMAND")
        if shutil.which(words[0], path=path) is None:
            raise SetupError(f"cli:{text}: {words[0]} is not installed, or not on PATH")
        match words:
            case ["claude", *more]:
                return Command((*_CLAUDE, *more), "claude")
            case ["codex", *more]:
                return Command((*_CODEX, *more, "-"), "codex")
        return Command(tuple(words), "text")


class CommandModel(TextModel):
    """Asks a command, each time in an empty directory that is removed."""

    def __init__(self, name: str, command: Command, environment: Mapping[str, str]) -> None:
        super().__init__(name, "cli")
        self._command = command
        self._environment = _cut(environment, command.format)

    async def reply(self, messages: tuple[Message, ...], most_bytes: int) -> Reply:
        """Run the command once.

        Raises:
            ModelRejected: the command says that it is not logged in.
            ModelAPIError: it failed, or printed what is no answer.
        """
        kind = self._command.format
        with tempfile.TemporaryDirectory(prefix="model-") as directory:
            printed = await run_bounded(
                self._command.words,
                as_prompt(messages),
                Path(directory),
                self._environment,
                most_bytes if kind == "text" else 2 * most_bytes + _ENVELOPE_BYTES,
            )
        if printed.flooded and kind != "text":
            raise ModelAPIError(self.model_name, "it printed more than an answer may have")
        if printed.status != 0 and not printed.flooded:
            raise self._failure(printed)
        read = {"text": _plain, "claude": _claude, "codex": _codex}[kind]
        try:
            reply = read(printed)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelAPIError(
                self.model_name, f"it printed what is no answer: {error}: {_tail(printed)}"
            ) from None
        if reply.finish == "error":
            raise self._failure(printed)
        cut = reply.text.encode()[:most_bytes].decode(errors="ignore")
        if cut == reply.text:
            return reply
        return Reply(cut, reply.input_tokens, reply.output_tokens, "length")

    def _failure(self, printed: Printed) -> Exception:
        said = _tail(printed)
        if _LOGGED_OUT.search(said):
            return ModelRejected(f"{self.model_name}: it is not logged in: {said}")
        return ModelAPIError(self.model_name, f"it ended with status {printed.status}: {said}")


def _cut(environment: Mapping[str, str], kind: Format) -> dict[str, str]:
    """What a command needs to find itself, be logged in and reach the network; nothing of ours, no other key."""
    beginnings = (*_KEPT_BEGINNINGS, *_OWN[kind])
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or name.upper() in _PROXIES or name.startswith(beginnings)
    }


def _tail(printed: Printed) -> str:
    text = printed.errors + b"\n" + printed.output[-2000:]
    return " ".join(text.decode(errors="replace").split())[-1000:]


def _plain(printed: Printed) -> Reply:
    text = printed.output.decode(errors="replace")
    return Reply(text, finish="length" if printed.flooded else "stop")


def _claude(printed: Printed) -> Reply:
    """The one object of `--output-format json`."""
    data = printed.output  # terminal codes may surround it
    answer: dict[str, Any] = parse_json(data[data.index(b"{") : data.rindex(b"}") + 1])
    usage: dict[str, Any] = answer.get("usage") or {}
    asked = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Reply(
        text=str(answer.get("result") or ""),
        input_tokens=sum(int(usage.get(name) or 0) for name in asked),
        output_tokens=int(usage.get("output_tokens") or 0),
        finish="error" if answer.get("is_error") else "stop",
    )


def _codex(printed: Printed) -> Reply:
    """The events of `--json`, one a line: the last message is the answer, the end of the turn has the tokens."""
    text, asked, answered, finish = "", 0, 0, "stop"
    for line in printed.output.splitlines():
        event: dict[str, Any] = parse_json(line) if line.startswith(b"{") else {}
        match event.get("type"):
            case "item.completed" if event["item"].get("type") == "agent_message":
                text = str(event["item"]["text"])
            case "turn.completed":
                asked += int(event["usage"]["input_tokens"])
                answered += int(event["usage"]["output_tokens"])
            case "turn.failed" | "error":
                finish = "error"
    return Reply(text, asked, answered, "error" if finish == "error" and not text else "stop")
