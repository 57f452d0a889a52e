"""A provider on which everything goes wrong, by chance and by seed."""

import asyncio
import random
import threading

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage

PROSE = "Certainly! Here is how one could make this kernel faster. \U0001f680 "


class FaultyModel(Model):
    """Answers, or fails, in one of many ways; thread-safe, and counts what it was really asked."""

    def __init__(self, seed, faults=0.6, overdraws=False):
        super().__init__()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._faults = faults
        self._overdraws = overdraws
        self.sent = 0

    @property
    def model_name(self):
        return "faulty"

    @property
    def system(self):
        return "fake"

    async def request(self, messages, model_settings, model_request_parameters):
        with self._lock:
            self.sent += 1
            wrong = self._random.random() < self._faults
            kind = self._random.choice(FAULTS) if wrong else "answer"
            size = self._random.randrange(1, 400)
        most = model_settings["max_tokens"]
        await asyncio.sleep(0)
        match kind:
            case "429":
                raise ModelHTTPError(429, "faulty", {"error": "slow"}, retry_after=size / 100)
            case "500" | "503" | "529" | "401" | "400" | "413" | "418":
                if kind in ("401", "400", "418") and size > 20:
                    raise ModelHTTPError(500, "faulty")  # those that end a run are rare
                raise ModelHTTPError(int(kind), "faulty", "x" * size)
            case "timeout":
                raise ModelTimeoutError("faulty", "read timed out", phase="read")
            case "slow":
                await asyncio.sleep(3600)
            case "refused":
                raise ModelConnectionError("faulty", "refused", phase="connect")
            case "cut":
                raise ModelConnectionError("faulty", "reset", phase="read")
            case "broken":
                raise ModelAPIError("faulty", "no JSON")
            case "strange":
                raise UnexpectedModelBehavior("no choices")
            case "bug":
                raise AttributeError("'NoneType' object has no attribute 'content'")
            case "empty":
                return _response("", 5, 0)
            case "refusal":
                return _response("", 5, 3, "content_filter")
            case "declined":
                return _response("I cannot help with that.", 5, 6, "content_filter")
            case "truncated":
                return _response("__global__ void k(", 5, most, "length")
            case "huge":
                return _response("y" * (200 * most), 5, most)
            case "surrogates":
                return _response("\ud800 k \udfff", 5, 5)
            case "no usage":
                return _response("k" * size, 0, 0)
            case "negative usage":
                return _response("k" * size, -1, -size)
            case "wrong usage":
                factor = 1000 if self._overdraws else 1
                return _response("k", 1, most * factor)
            case "no text":
                return ModelResponse(parts=[], usage=RequestUsage(input_tokens=3, output_tokens=2))
        return _response(PROSE * (size // 50 + 1), size, min(size, most))


def _response(text, asked, answered, finish="stop"):
    return ModelResponse(
        parts=[TextPart(text)],
        usage=RequestUsage(input_tokens=asked, output_tokens=answered),
        finish_reason=finish,
    )


FAULTS = [
    "429", "500", "503", "529", "401", "400", "413", "418", "timeout", "slow", "refused", "cut", "broken", "strange",
    "bug", "empty", "refusal", "declined", "truncated", "huge", "surrogates", "no usage", "negative usage",
    "wrong usage", "no text",
]  # fmt: skip
