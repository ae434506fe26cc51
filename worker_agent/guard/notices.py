"""Files that say until when the lease holds: that of the agent, and the guard's own.

They only ever tell of renewals that succeeded. What makes no sense, or is of another cluster or of
another start of this machine, extends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from federation.edge.machine import boot_id
from worker_agent.guard.decision import Knowledge, Notice

Json = dict[str, Any]
T = TypeVar("T")

NONSENSE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading JSON that somebody else wrote may raise."""


class NoticeError(Exception):
    """A source says nothing that can be used; the text says why."""


class Note:
    """The file that the agent writes after each renewal, see `worker_agent.deadline_file`. The
    guard keeps one in the same format.
    """

    def __init__(self, path: Path, cluster: str = "", boot: str = "") -> None:
        """`cluster` is whose notices count; empty: any. `boot` is the running boot."""
        self.path, self.cluster, self._boot_id = path, cluster, boot or boot_id()

    def read(self) -> Notice:
        """What stands there. Raises NoticeError."""
        return self._understood(_notice)

    def knowledge(self) -> Knowledge:
        """All that a guard noted of what it knows, in its own file. Raises NoticeError."""
        return self._understood(_knowledge)

    def silence(self, now: float) -> float:
        """For how many seconds the guard has not noted anything in its own file. Raises
        NoticeError.
        """
        return self._understood(lambda body: now - float(body["at"]))

    def _understood(self, understand: Callable[[Json], T]) -> T:
        try:
            body = json.loads(self.path.read_text())
            if self.cluster and body["cluster"] != self.cluster:
                raise NoticeError(f"{self.path} is of cluster {str(body['cluster'])[:60]!r}")
            if body["bootId"] != self._boot_id:
                raise NoticeError(f"{self.path} is from before this machine started")
            return understand(body)
        except FileNotFoundError as error:
            raise NoticeError(f"{self.path} is not there") from error
        except (OSError, *NONSENSE) as error:
            raise NoticeError(f"{self.path} cannot be read: {error!r}") from error


def noted(knowledge: Knowledge) -> Json:
    """What `Note.knowledge` reads, beside `bootId` and `cluster`."""
    body: Json = {"since": knowledge.since, "patience": knowledge.patience}
    if (notice := knowledge.notice) is not None:
        body |= {"renewed": notice.renewed, "deadline": notice.deadline, "kill": notice.kill}
    return body


def _notice(body: Json) -> Notice:
    kill = body.get("kill")
    return Notice(
        float(body["renewed"]), float(body["deadline"]), None if kill is None else float(kill)
    )


def _knowledge(body: Json) -> Knowledge:
    notice = _notice(body) if "renewed" in body else None
    return Knowledge(float(body["since"]), float(body["patience"]), notice)
