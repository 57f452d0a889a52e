"""A model that knows its roles and mostly does its work; by chance and by seed, everything else happens."""

import asyncio
import json
import random
import re
import threading
from collections import Counter

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

from astra_kernels.models.transcript import transcript

NAME = "fake:scripted"
TECHNIQUES = ("launch_geometry", "unroll", "fast_math", "vectorized_access", "own_idea")
LAUNCH = re.compile(r"sigmoid_rows<<<rows, (\d+), 0, stream>>>\(out, in, scale, columns\);")
CUTS = (1, 7, 40, 200)

RAISED = (
    "429", "429, later", "500", "503", "529", "413", "policy", "timed out", "late", "refused connection",
    "cut connection", "no JSON from the provider", "no choices", "a bug in its library",
)  # fmt: skip
"""Faults that leave a request without an answer."""
EMPTY = ("empty", "no parts", "withheld by a filter")
"""Answers without text."""
SAID = (
    "prose", "refusal in words", "declined by a filter", "truncated", "malformed JSON", "wrong JSON", "two blocks",
    "another signature", "no entry point", "edit that matches nowhere", "new file that is no header",
    "file outside", "abbreviated", "diff", "the same again", "huge", "surrogates", "control characters",
)  # fmt: skip
"""Answers that cannot be used as they are."""
COUNTED = ("no usage", "negative usage")
"""Good answers with bad counts of tokens."""
FAULTS = (*RAISED, *EMPTY, *SAID, *COUNTED)
FATAL = "401"
"""Refuses every request: ends a session, not the run."""


class ScriptedModel(Model):
    """Thread-safe; counts what it was really asked and what it did about it."""

    def __init__(self, seed, faults, *, fatal=0.0, evidence=()):
        super().__init__()
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._faults, self._fatal, self._evidence = faults, fatal, evidence
        self.sent = 0
        self.did = Counter()

    @property
    def model_name(self):
        return "scripted"

    @property
    def system(self):
        return "fake"

    async def request(self, messages, model_settings, model_request_parameters):
        said = transcript(messages, model_request_parameters)
        system = next(m.text for m in said if m.author == "system")
        prompt = next(m.text for m in said if m.author == "user")
        with self._lock:
            self.sent += 1
            kind = self._kind()
            self.did[kind] += 1
            chance = random.Random(self._random.random())
        await asyncio.sleep(0)
        if kind in RAISED or kind == FATAL:
            await _fail(kind, chance)
        most = model_settings["max_tokens"]
        text = "" if kind in EMPTY else self._good(system, prompt, chance)
        finish = "stop"
        if kind in SAID:
            text, finish = _spoilt(kind, text, chance, most)
        if kind == "withheld by a filter":
            finish = "content_filter"
        parts = [] if kind == "no parts" else [TextPart(text)]
        spoken = min(most, len(text) // 4 + 1)
        asked = len(prompt) // 4
        usage = {"no usage": (0, 0), "negative usage": (-1, -spoken)}.get(kind, (asked, spoken))
        return ModelResponse(
            parts=parts,
            usage=RequestUsage(input_tokens=usage[0], output_tokens=usage[1]),
            finish_reason=finish,
        )

    def _kind(self):
        if self._random.random() < self._fatal:
            return FATAL
        return self._random.choice(FAULTS) if self._random.random() < self._faults else "good"

    def _good(self, system, prompt, chance):
        """A useful answer for whichever role is asked."""
        if "testing agent" in system:
            return _block(
                {"workloads": [{"sizes": {"rows": chance.randrange(1, 9), "columns": chance.randrange(1, 999)}}]}
            )  # fmt: skip
        if "profiling agent" in system:
            metric, value = chance.choice(self._evidence)
            evidence = {"metric": metric, "value": value, "meaning": "m"}
            return _block(
                {"bottleneck": "parallelism", "summary": "few threads", "evidence": [evidence]}
            )
        if "planning agent" in system:
            names = chance.sample(TECHNIQUES, chance.randrange(1, 4))
            return _block({"plans": [_plan(name, chance) for name in names]})
        thought = {"diagnosis": "d", "technique": chance.choice(TECHNIQUES), "hypothesis": "h"}
        alone = "" if "coding agent" in system else _block({**thought, "predicted_gain": 1.2})
        return f"{alone}\n{_edit(prompt, chance)}"


async def _fail(kind, chance):
    match kind:
        case "429":
            raise ModelHTTPError(429, "scripted", {"error": "slow down"})
        case "429, later":
            raise ModelHTTPError(429, "scripted", retry_after=chance.choice([1, 30, 4000]))
        case "500" | "503" | "529" | "413" | "401":
            raise ModelHTTPError(int(kind), "scripted", f"status {kind}")
        case "policy":
            raise ModelHTTPError(400, "scripted", provider_error_code="content_policy_violation")
        case "timed out":
            raise ModelTimeoutError("scripted", "read timed out", phase="read")
        case "late":
            await asyncio.sleep(3600)
        case "refused connection":
            raise ModelConnectionError("scripted", "refused", phase="connect")
        case "cut connection":
            raise ModelConnectionError("scripted", "reset by peer", phase="read")
        case "no JSON from the provider":
            raise ModelAPIError("scripted", "no JSON")
        case "no choices":
            raise UnexpectedModelBehavior("no choices")
    raise AttributeError("'NoneType' object has no attribute 'content'")


def _spoilt(kind, good, chance, most):
    """What becomes of a good answer, and why the model says that it stopped."""
    code = "### sigmoid.cu\n```cuda\n{}\n```\n"
    entry = 'extern "C" int sigmoid({}) {{ return 0; }}'
    match kind:
        case "prose":
            return "Certainly! One could use more threads. " * chance.choice(CUTS), "stop"
        case "refusal in words":
            return "Refusal: it is as fast as it can be", "stop"
        case "declined by a filter":
            return "I cannot help with that.", "content_filter"
        case "truncated":
            return good[: chance.randrange(len(good))] or "T", "length"
        case "malformed JSON":
            return "```json\n{'plans': [}\n```", "stop"
        case "wrong JSON":
            wrong = {"plans": "none", "workloads": 3, "bottleneck": "gremlins", "predicted_gain": "NaN"}  # fmt: skip
            return _block(wrong), "stop"
        case "two blocks":
            return good + good, "stop"
        case "another signature":
            return code.format(entry.format("float* out")), "stop"
        case "no entry point":
            return code.format("__global__ void k() {}"), "stop"
        case "edit that matches nowhere":
            return "### sigmoid.cu\n<<<<<<< SEARCH\nint x;\n=======\nint y;\n>>>>>>> REPLACE\n", "stop"  # fmt: skip
        case "new file that is no header":
            return "### other.cu\n```cuda\nint x;\n```\n", "stop"
        case "file outside":
            return "### ../../outside.h\n```cuda\nint x;\n```\n", "stop"
        case "abbreviated":
            return code.format("// ... rest of the code"), "stop"
        case "diff":
            return "### sigmoid.cu\n```diff\n-a\n+b\n```\n", "stop"
        case "the same again":
            same = "<<<<<<< SEARCH\n#include <cuda_runtime.h>\n=======\n#include  <cuda_runtime.h>\n>>>>>>> REPLACE"
            return f"Title: t\n### sigmoid.cu\n{same}\n", "stop"
        case "huge":
            return "y" * min(200 * most, 3_000_000), "stop"
        case "surrogates":
            return f"\ud800 {good} \udfff", "stop"
        case "control characters":
            return good.replace("h", "h\x00\x1b[31m"), "stop"
    raise AssertionError(kind)


def _block(value):
    return f"```json\n{json.dumps(value)}\n```\n"


def _plan(name, chance):
    risk = "r" * chance.randrange(1, 9)
    return {"technique": name, "hypothesis": f"because {chance.random()}", "predicted_gain": 1.3, "risk": risk}  # fmt: skip


def _edit(prompt, chance):
    """Another block size in the sources that the prompt ends with."""
    launch = list(LAUNCH.finditer(prompt))[-1]
    wider = launch[0].replace(f"rows, {launch[1]}", f"rows, {chance.randrange(1, 33) * 32}")
    indent = prompt[prompt.rfind("\n", 0, launch.start()) + 1 : launch.start()]
    return (
        f"Title: other blocks\n### sigmoid.cu\n<<<<<<< SEARCH\n{indent}{launch[0]}\n=======\n"
        f"{indent}{wider}\n>>>>>>> REPLACE\n"
    )
