"""Where a guard learns until when the lease holds: a file of the agent, or the agent over HTTP.

Both only ever tell of renewals that succeeded. No answer, one that makes no sense, or one of
another cluster or of another start of this machine, extends nothing.
"""

from __future__ import annotations

import json
import ssl
import threading
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from federation.core.failover import DEFAULT
from federation.edge.machine import boot_id, boottime
from worker_agent.guard.decision import Notice

LARGEST: Final = 1 << 20
"""Bytes of an answer."""
ROUNDED: Final = 0.1
"""By how many seconds the agent may have rounded up."""


_NONSENSE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading JSON that somebody else wrote may raise."""


class NoticeError(Exception):
    """A source says nothing that can be used; the text says why."""


class BeforeBootError(NoticeError):
    """What a source says is of an earlier start of this machine."""


class Note:
    """The file that the agent writes after each renewal, see `worker_agent.deadline_file`. The
    guard keeps one in the same format.
    """

    def __init__(self, path: Path, cluster: str = "", boot: str = "") -> None:
        """`cluster` is whose notices count; empty: any. `boot` is the running boot."""
        self.path, self._cluster, self._boot_id = path, cluster, boot or boot_id()

    def read(self) -> Notice:
        """What stands there. Raises NoticeError."""
        try:
            body = json.loads(self.path.read_text())
            if self._cluster and body["cluster"] != self._cluster:
                raise NoticeError(f"{self.path} is of cluster {str(body['cluster'])[:60]!r}")
            if body["bootId"] != self._boot_id:
                raise BeforeBootError(f"{self.path} is from before this machine started")
            kill = body.get("kill")
            return Notice(
                float(body["renewed"]),
                float(body["deadline"]),
                None if kill is None else float(kill),
            )
        except FileNotFoundError as error:
            raise NoticeError(f"{self.path} is not there") from error
        except (OSError, *_NONSENSE) as error:
            raise NoticeError(f"{self.path} cannot be read: {error!r}") from error


class Pull:
    """Asks the agent again and again how long its lease holds, on a thread of its own: an agent
    that does not answer must not keep the guard from looking at the clock.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: Path | None = None,
        period: float = 5.0,
        timeout: float = 3.0,
        lease: float = DEFAULT.lease,
    ) -> None:
        """`lease` is L_W where the answer does not say when it was renewed."""
        self._url, self._ca, self._lease = url, ca, lease
        self._period, self._timeout = period, timeout
        self._ended = threading.Event()
        self.notice: Notice | None = None
        self.problem = f"{url} has not answered yet"

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._run, name="pull", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            self.ask()
            self._ended.wait(self._period)  # the period of the protocol

    def ask(self) -> None:
        """Ask once. What was known before stays if nothing comes of it."""
        try:
            # Made anew each time: authorities are replaced.
            context = ssl.create_default_context(cafile=str(self._ca) if self._ca else None)
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            sent = boottime()
            with opener.open(self._url, timeout=self._timeout) as answer:
                body = json.loads(answer.read(LARGEST))
            self.notice = told(body, sent, self._lease)
            self.problem = ""
        except (OSError, ValueError, RecursionError, HTTPException, NoticeError) as error:
            self.problem = f"{self._url}: {error}"


def told(body: Any, sent: float, lease: float) -> Notice:
    """The notice in an answer to what was asked at `sent`. Raises NoticeError.

    Counted from before the question, so that its way takes nothing from anybody but the run; the
    other machine's clock may be slower, hence a little less.
    """
    found = body.get("lease", body) if isinstance(body, Mapping) else None
    if not isinstance(found, Mapping):
        raise NoticeError("it does not say for how long a lease holds: it is no JSON object")
    try:
        left = float(found["endsInSeconds"]) - ROUNDED
        past = found.get("renewedSecondsAgo")
        kill = found.get("killSeconds")
        held = left / DEFAULT.skew if left > 0 else left
        renewed = sent - (float(past) if past is not None else max(0.0, lease - held))
        return Notice(renewed, sent + held, None if kill is None else float(kill))
    except _NONSENSE as error:
        raise NoticeError(f"it does not say for how long the lease holds: {error!r}") from error
