"""What became of a request that gave no answer: whose fault, whether it may have cost something, whether to ask again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelRequestTimeout,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)
from pydantic_ai.exceptions import UserError as Misused

from astra_kernels.errors import BudgetSpent, ModelFault, ModelRejected
from astra_kernels.records.model_calls import Failure

Again = Literal["never", "once", "patiently"]
_UNSENT = ("pool", "connect")
"""Phases of a connection before anything was sent."""
_POLICY = ("content_filter", "content_policy_violation", "invalid_prompt")
"""Codes of a refusal that is about the words of this request."""
_MALFORMED = (400, 422)
"""Statuses of a setting that no request may have, and of words that this one may not have."""
_ASK_AGAIN = (408, 409, 425)
"""Statuses below 500 that ask the client to try again."""


@dataclass(frozen=True)
class Mishap:
    """A request without an answer."""

    kind: Failure
    detail: str
    billed: bool
    """It may have been answered where nobody saw it, and is charged as if."""
    again: Again
    account: bool = False
    """Every other request would be refused in the same way."""
    perhaps_alone: bool = False
    """Where the account has been answered before, it is this request that is refused and no other."""
    spent: bool = False
    """Nothing may be asked any more."""
    retry_after_s: float | None = None
    told: bool = False
    """The detail is a whole message for the user: it names the model and says what to do."""

    @staticmethod
    def of(error: Exception) -> Mishap:
        """Read the exception of a model."""
        detail = str(error) or type(error).__name__
        match error:
            case BudgetSpent():
                return Mishap("rejected", detail, False, "never", spent=True)
            case ModelRejected():
                return Mishap("rejected", detail, False, "never", account=True, told=True)
            case Misused():
                return Mishap("rejected", detail, billed=False, again="never", account=True)
            case ModelFault():
                late = isinstance(error.__cause__, TimeoutError)
                kind: Failure = "timed_out" if late else "unusable"
                return Mishap(kind, detail, False, "never", told=True)
            case ModelAPIError():
                return _of_provider(error, detail)
            case TimeoutError():
                return Mishap("timed_out", detail, billed=True, again="patiently")
            case UnexpectedModelBehavior():
                return Mishap("unusable", detail, billed=True, again="once")
        unexpected = f"{type(error).__name__}: {detail}"
        return Mishap("server_error", unexpected, billed=True, again="once")


def _of_provider(error: ModelAPIError, detail: str) -> Mishap:
    """Read what a provider, or the way to it, reported."""
    status = error.status_code if isinstance(error, ModelHTTPError) else None

    def transient(kind: Failure, *, billed: bool) -> Mishap:
        return Mishap(kind, detail, billed, "patiently", retry_after_s=error.retry_after)

    def refused() -> Mishap:
        alone = status in _MALFORMED
        return Mishap("rejected", detail, False, "never", account=True, perhaps_alone=alone)

    if (
        isinstance(error, ModelContextWindowExceededError)
        or status == 413
        or error.provider_error_code in _POLICY
    ):
        return Mishap("rejected", detail, billed=False, again="never")
    if isinstance(error, ModelQuotaExceededError | ModelRequestRejectedError):
        return refused()
    if isinstance(error, ModelRateLimitError) or status == 429:
        return transient("rate_limited", billed=False)
    if isinstance(error, ModelConnectionError):
        kind: Failure = "timed_out" if isinstance(error, ModelTimeoutError) else "connection"
        return transient(kind, billed=error.phase not in _UNSENT)
    if isinstance(error, ModelRequestTimeout):
        return transient("timed_out", billed=True)
    if isinstance(error, ModelServerError | ModelUnavailableError):
        return transient("server_error", billed=False)
    if status is not None and (status >= 500 or status in _ASK_AGAIN):
        return transient("server_error", billed=False)
    if status is not None:
        return refused()
    return transient("server_error", billed=True)
