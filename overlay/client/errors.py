"""Errors of the client: the overlay cannot be reached, its answer has the wrong form, or it answers with a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlay.verify import VerificationReport

MAX_DETAIL = 2_000
"""Characters of an overlay's complaint that are passed on."""

MAX_FAULTS = 100


class ClientError(Exception):
    """Every error of this client."""


class RemoteError(ClientError):
    """The overlay could not be reached, or gave an invalid answer; the message names the fault."""


class UrlError(RemoteError):
    """The text is not the URL of an overlay."""


class RemoteProblemError(ClientError):
    """The overlay answers with an RFC 9457 problem. Its members are: `status`, `title`, `detail`, `errors` (each with
    `code`, `detail` and `parameter` or `pointer`) and `request_id`. `retry_after` is in seconds, None where the answer
    has no time for a retry. 429 and 5xx are of this class itself, 4xx of one below."""

    def __init__(self, url: str, status: int, problem: Mapping[str, Any], retry_after: float | None = None) -> None:
        stated = problem.get("detail") or problem.get("error") or problem.get("message")
        detail = str(stated or f"status {status}")[:MAX_DETAIL]
        super().__init__(detail if status < 500 and status != 429 else f"{url} answers {status}: {detail}")
        errors = problem.get("errors")
        faults = errors if isinstance(errors, list) else []
        self.status, self.detail, self.retry_after = status, detail, retry_after
        self.title, self.request_id = str(problem.get("title", ""))[:200], str(problem.get("requestId", ""))[:200]
        self.errors = [fault for fault in faults[:MAX_FAULTS] if isinstance(fault, dict)]


class RefusedError(RemoteProblemError):
    """The overlay refuses the request as wrong (a 4xx other than 404, 429 and 451)."""


class NotThereError(RemoteProblemError):
    """The overlay does not have it (404)."""


class HiddenError(RemoteProblemError):
    """The operator of the overlay hides the listing by law (451); another overlay may show it."""


class NotVerifiedError(ClientError):
    """A listing is not proved, or not to be the newest revision, and nothing is paid for it; `report` has the steps,
    None where none was made."""

    def __init__(self, message: str, report: VerificationReport | None = None) -> None:
        super().__init__(message)
        self.report = report


class NewerRevisionError(NotVerifiedError):
    """An overlay names a revision of the listing that it has not had before: there may be a newer one."""


def problem_error(url: str, status: int, value: object, retry_after: float | None) -> RemoteProblemError:
    """The exception for an answer of status 400 or above with this JSON as its body."""
    kinds = {404: NotThereError, 429: RemoteProblemError, 451: HiddenError}
    kind = kinds.get(status, RefusedError if status < 500 else RemoteProblemError)
    return kind(url, status, value if isinstance(value, dict) else {}, retry_after)
