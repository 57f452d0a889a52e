"""Models of providers and of OpenAI-compatible servers, as pydantic-ai makes them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError as Misused
from pydantic_ai.models import Model, infer_model

from astra_kernels.errors import ModelRejected, SetupError, UserError

KEY_OF_A_URL = "OPENAI_COMPATIBLE_API_KEY"
_SERVER = "self-hosted"
"""Named so that the table of prices does not take it for the provider of a model of the same name."""


def provider_model(name: str, environment: Mapping[str, str]) -> Model:
    """The model that `PROVIDER:MODEL` or `openai:MODEL@URL` names.

    Keys of providers are read from the environment of the process by their own libraries.

    Raises:
        ModelRejected: no such provider, or its key is missing.
        SetupError: the library of the provider is not installed.
        UserError: the URL cannot be used.
    """
    provider, _, rest = name.partition(":")
    model, at, url = rest.partition("@")
    if provider in ("openai", "openai-chat") and at:
        return _compatible(model, url, environment.get(KEY_OF_A_URL))
    base = environment.get("OPENAI_BASE_URL", "")
    if provider in ("openai", "openai-chat") and base and not _is_openai(base):
        return _compatible(rest, base, environment.get("OPENAI_API_KEY"))
    try:
        return infer_model(name)
    except ImportError as error:
        raise SetupError(f"{name}: {error}") from None
    except (Misused, ValueError) as error:
        raise ModelRejected(
            f"{name}: {error}; a model is PROVIDER:MODEL, openai:MODEL@URL, cli:COMMAND, manual:DIR or replay:RUN"
        ) from None
    except Exception as error:  # the library of a provider complains of its key in its own words
        raise ModelRejected(f"{name}: cannot be opened: {error}") from None


def _compatible(model: str, url: str, key: str | None) -> Model:
    """A server that speaks the chat completions of OpenAI: vLLM, SGLang, Ollama and many more."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or not model:
        raise UserError(f"openai:{model}@{url}: write openai:MODEL@http://HOST:PORT/v1")
    if address.username is not None or address.password is not None:
        raise UserError(
            f"openai:{model}@...: the URL holds a user or a password, and names of models are recorded; "
            f"put the key into {KEY_OF_A_URL}"
        )
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.profiles.openai import OpenAIModelProfile
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    except ImportError as error:
        raise SetupError(f"openai:{model}@{url}: {error}") from None
    provider = OpenAICompatibleProvider(_SERVER, base_url=url, api_key=key)
    # Every such server knows `max_tokens`; some ignore `max_completion_tokens`, and an answer would have no bound.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    return OpenAIChatModel(model, provider=provider, profile=profile)


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")
