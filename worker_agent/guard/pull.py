"""How long the lease holds, asked of the agent over HTTP. No answer extends nothing."""

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
from federation.edge.machine import boottime
from worker_agent.guard.decision import Notice
from worker_agent.guard.notices import NONSENSE, NoticeError

LARGEST: Final = 1 << 20
"""Bytes of an answer."""
ROUNDED: Final = 0.1
"""By how many seconds the agent may have rounded up."""


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
    except NONSENSE as error:
        raise NoticeError(f"it does not say for how long the lease holds: {error!r}") from error
