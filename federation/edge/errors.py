"""What a Kubernetes API server can answer that is not success, as one tree.

    ApiError                    every failure of this package; `retryable` says if waiting can help
    ├── Unreachable             no answer: refused, reset, timed out, TLS failed    retryable
    ├── Unauthorized            401: credentials missing, wrong or expired
    ├── Forbidden               403: RBAC, a quota, or an admission policy said no
    ├── NotFound                404: no such object, namespace or resource type
    ├── AlreadyExists           409: the name is taken
    ├── Conflict                409: the object changed since it was read, or a precondition failed
    ├── Gone                    410: the resource version or page is too old; list again
    ├── Invalid                 400, 413, 415, 422: the server will never accept this request
    ├── TooManyRequests         429: slow down                                      retryable
    ├── ServerError             5xx                                                 retryable
    │   └── WebhookFailed       5xx: an admission webhook failed or gave no answer  retryable
    ├── ConfigError             a kubeconfig cannot or must not be used; nothing was sent
    └── Halted                  this program must not write now; nothing was sent   retryable

Every message names the request, the server's words and the cluster. All classes pickle, because
they cross process borders between actors. `asyncio.CancelledError` is never turned into one.
"""

from __future__ import annotations

import json
import re
from typing import Any


class ApiError(Exception):
    """A request failed. `status` is the HTTP code, 0 when there was none."""

    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        cluster: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.cluster = cluster
        self.retry_after = retry_after
        """Seconds the server asked us to wait, None when it did not say."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message,), self.__dict__)


class Unreachable(ApiError):
    """No answer came; the request may or may not have been carried out, unless it was not even
    `sent`: there was no connection to send it on.
    """

    retryable = True
    sent: bool = True


class Unauthorized(ApiError):
    """The credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """RBAC, a quota or an admission policy refuses this request."""


class NotFound(ApiError):
    """No such object, namespace or resource type (a CRD that is not installed)."""


class AlreadyExists(ApiError):
    """Another object has this name."""


class Conflict(ApiError):
    """The object changed since it was read, or a delete precondition does not hold."""


class Gone(ApiError):
    """The resource version or the continue token is too old: list again."""


class Invalid(ApiError):
    """The server can never accept this request as it stands."""


class TooManyRequests(ApiError):
    """The server sheds load; `retry_after` says for how long, in seconds."""

    retryable = True


class ServerError(ApiError):
    """The server failed (5xx); the request may or may not have been carried out."""

    retryable = True


class WebhookFailed(ServerError):
    """An admission webhook that has to be asked failed or gave no answer; nothing was carried out,
    as admission comes before storage.
    """


REFUSED = (Forbidden, Invalid, WebhookFailed)
"""The server, or who admits for it, says no to a request: nothing was carried out."""


class ConfigError(ApiError):
    """A kubeconfig cannot (BadKubeConfig) or must not (InsecureKubeConfig) be used.

    The reasons are those of Kueue's MultiKueueCluster condition Active, the message is a sentence
    that says what to do.
    """


class Halted(ApiError):
    """This program must not write at the moment, because it does not lead: nothing was sent."""

    retryable = True


LONGEST = 400
"""Characters kept of the beginning of what a server says; a quarter of it is kept of the end."""

_WEBHOOK_FAILED = re.compile(r'(Internal error occurred: failed calling|admission) webhook "')
"""What the message begins with (apiserver: ErrCallingWebhook, ToStatusErr): no reason tells it."""

_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


def error_class(status: int, reason: str) -> type[ApiError]:
    """Choose the class for an HTTP status and the `reason` of the Status object."""
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason in ("Expired", "Gone"):
        return Gone
    if status >= 500:
        return ServerError
    return _BY_STATUS.get(status, Invalid)


def from_status(status: dict[str, Any], request: str, cluster: str) -> ApiError:
    """Turn a Kubernetes Status object (an answer's body or an ERROR event) into our error.

    `request` is what was asked, in the form "verb resource namespace/name".
    """
    code = int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    said = str(status.get("message") or reason or f"HTTP {code}")
    if len(said) > LONGEST:  # a refused Job is quoted with its whole template
        said = f"{said[:LONGEST]}…{said[-LONGEST // 4 :]}"
    details = status.get("details") or {}
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    found = error_class(code, reason)
    if found is ServerError and _WEBHOOK_FAILED.match(said):
        found = WebhookFailed
    return found(
        f"{request} on cluster {cluster}: {said} ({code})",
        status=code,
        reason=reason,
        cluster=cluster,
        retry_after=float(seconds) if seconds else None,
    )


def from_answer(code: int, body: bytes, retry_after: str, request: str, cluster: str) -> ApiError:
    """Turn an HTTP answer into our error; the body may be a Status, or a proxy's page."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        status = {"message": body[:300].decode("utf-8", "replace").strip()}
    error = from_status({**status, "code": code}, request, cluster)
    if retry_after.isdigit() and error.retry_after is None:
        error.retry_after = float(retry_after)
    return error
