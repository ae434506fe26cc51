"""A store of objects over HTTP with conditional writes, as S3 has them.

What it needs of the server: PUT with `If-None-Match: *` succeeds only where there is no object, and
with `If-Match: ETAG` only on the object that has this ETag; else it answers 412 (404 for `If-Match`
where there is none, 409 when two such writes meet). GET gives the object and its ETag, reading what
was written last. A server that ignores the conditions is found out by `check`.

    <prefix>/<job>/token      <prefix>/<job>/attempt-3/model.<random>
"""

from __future__ import annotations

import hashlib
import io
import shutil
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote, urlsplit

from federation.checkpoint_token.errors import ConditionsIgnoredError, StoreError
from federation.checkpoint_token.signing import Credentials, Request, quoted, signed
from federation.checkpoint_token.token import State

TIMEOUT: Final = 60.0
"""Seconds that a server may be silent."""
TRIES: Final = 5
NOTHING: Final = hashlib.sha256(b"").hexdigest()
LARGEST: Final = 5 << 30
"""Bytes of one PUT; more would take several, which S3 has no conditions for on its parts."""
ABSENT: Final = {"If-None-Match": "*"}


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent: `stream` is read from its start, `digest` is its SHA-256."""

    stream: IO[bytes]
    size: int
    digest: str


def body_of(data: bytes) -> Body:
    """Some bytes."""
    return Body(io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())


class ObjectStore:
    """The objects of one job below `url`, such as `https://host/bucket/prefix/<job>`; the path is
    quoted there. Without `credentials` requests are not signed.
    """

    def __init__(self, url: str, attempt: int, credentials: Credentials | None = None) -> None:
        self._url, self._attempt, self._credentials = url.rstrip("/"), attempt, credentials

    def read(self) -> tuple[State, str]:
        """See Store. The version is the ETag, empty if there is no object."""
        try:
            with self._send("GET", "token") as answer:
                return State.read(answer.read()), self._etag(answer)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise _failure("GET", error) from error
            return State(), ""

    def swap(self, state: State, version: str) -> bool:
        """See Store. When an answer is lost it says that nothing was changed, and whoever reads
        again finds out.
        """
        condition = {"If-Match": version} if version else ABSENT
        return self._put("token", body_of(state.text()), condition)

    def put(self, name: str, source: Path) -> str:
        """See Store. The location is a key below that of the job."""
        size = source.stat().st_size
        if size > LARGEST:
            raise StoreError(
                f"{source} has {size} bytes, and one upload takes {LARGEST}: upload it by other"
                " means, to a place of this attempt alone, and commit its location"
            )
        with source.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            key = f"attempt-{self._attempt}/{name}.{uuid.uuid4().hex}"
            # Nobody else has this key: if it is there, an answer was lost.
            self._put(key, Body(stream, size, digest), ABSENT)
        return key

    def get(self, location: str, target: Path) -> None:
        """See Store."""
        fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with self._send("GET", location) as answer, fresh.open("xb") as stream:
                shutil.copyfileobj(answer, stream, 1 << 20)
            fresh.replace(target)
        except urllib.error.HTTPError as error:
            raise _failure("GET", error) from error
        except (OSError, HTTPException) as error:
            raise StoreError(f"cannot fetch {location}: {error}") from error
        finally:
            fresh.unlink(missing_ok=True)

    def drop(self, location: str) -> None:
        """See Store."""
        try:
            self._send("DELETE", location).close()
        except urllib.error.HTTPError as error:
            raise _failure("DELETE", error) from error

    def check(self) -> None:
        """See Store: two writes that have to fail."""
        self._put("probe", body_of(b""), ABSENT)
        wrong = {"If-Match": '"00000000000000000000000000000000"'}
        for condition in (ABSENT, wrong):
            if self._put("probe", body_of(b""), condition):
                name = next(iter(condition))
                raise ConditionsIgnoredError(
                    f"{self._url}: the store takes a write with {name} that it has to refuse:"
                    " attempts could overwrite each other there"
                )

    def _put(self, key: str, body: Body, condition: Mapping[str, str]) -> bool:
        """False where the condition does not hold, or held before an answer was lost."""
        try:
            with self._send("PUT", key, body, condition):
                return True
        except urllib.error.HTTPError as error:
            if error.code == 412 or (error.code == 404 and "If-Match" in condition):
                return False
            raise _failure("PUT", error) from error

    def _send(
        self,
        method: str,
        key: str,
        body: Body | None = None,
        condition: Mapping[str, str] | None = None,
    ) -> HTTPResponse:
        """Send until there is an answer that says something. Raises HTTPError, StoreError."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(method, key, body, condition or {})
            except urllib.error.HTTPError as error:
                if error.code < 500 and error.code not in (409, 429):
                    raise
                problem: Exception = _failure(method, error)
            except (OSError, HTTPException) as error:
                problem = error
            if attempt < TRIES:
                time.sleep(0.1 * 2**attempt)  # the store is overloaded, or away
        raise StoreError(f"{method} {self._url}/{key}: {problem}") from problem

    def _once(
        self, method: str, key: str, body: Body | None, condition: Mapping[str, str]
    ) -> HTTPResponse:
        parts = urlsplit(self._url)
        path = f"{unquote(parts.path)}/{key}"
        headers = dict(condition)
        if body is not None:
            body.stream.seek(0)
            headers["Content-Length"] = str(body.size)
            headers["Content-Type"] = "application/octet-stream"
        if self._credentials is not None:
            payload = NOTHING if body is None else body.digest
            moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            request = Request(method, parts.netloc, path, payload, headers)
            headers = signed(request, self._credentials, moment)
        url = f"{parts.scheme}://{parts.netloc}{quoted(path)}"
        data = body.stream if body else None
        made = urllib.request.Request(url, data, headers, method=method)
        answer: HTTPResponse = urllib.request.urlopen(made, timeout=TIMEOUT)
        return answer

    def _etag(self, answer: HTTPResponse) -> str:
        tag = answer.headers.get("ETag")
        if not tag:
            raise StoreError(f"{self._url}: the store gives its objects no ETag")
        return tag


def _failure(method: str, error: urllib.error.HTTPError) -> StoreError:
    text = error.read(500).decode(errors="replace").strip()
    return StoreError(f"{method} {error.url}: {error.code} {error.reason} {text}".strip())
