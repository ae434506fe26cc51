"""The pods of copies on one cluster, as far as people have to hear of them.

Pods that start, run and end are no news: their Job's status tells. Only what is wrong with some of
a copy's pods is told, and when nothing is wrong any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from federation.api.names import PODS_OF_COPIES, Mirror
from federation.edge.informer import Calls, Select
from federation.edge.resources import Json
from federation.jobs.mirror import mirrored_attempt
from federation.jobs.pod_text import PodState, pod_state, summary, troubled
from manager.protocol import PodNews

SELECT = Select(label_selector=PODS_OF_COPIES)
MOST_PODS = 100_000
"""Whoever may make pods there may make many with our label."""


class Attempt(NamedTuple):
    """Whose pods they are, as these say themselves: of a job, by its UID on the management cluster,
    that runs in a namespace. What is said in another namespace is said of another attempt.
    """

    namespace: str
    local_uid: str
    number: int


class PodWatch:
    """Fed by an informer; `wake` is called when there is something to tell."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.on_change: Callable[[Attempt], None] = lambda attempt: None
        """Told when pods of an attempt have changed."""
        self._pods: dict[Attempt, dict[str, PodState]] = {}
        self._keys: dict[str, Attempt] = {}
        self._told: dict[Attempt, str] = {}
        self._dirty: set[Attempt] = set()

    def handler(self) -> Calls:
        """What the informer calls."""
        return Calls(self._listed, self._seen, self._gone)

    def _listed(self, pods: Sequence[Json], version: str) -> None:
        """After a full listing all is told: what stands in a record may be of long ago."""
        before = set(self._pods)
        self._pods.clear()
        self._keys.clear()
        for pod in pods:
            self._seen(pod)
        self._told.clear()
        self._dirty |= self._pods.keys()
        if self._dirty:
            self._wake()
        for attempt in before - self._pods.keys():
            self.on_change(attempt)

    def live(self, attempt: Attempt) -> bool:
        """Whether pods of an attempt have not ended, as far as is known."""
        states = self._pods.get(attempt, {}).values()
        return any(state.phase not in ("Succeeded", "Failed") for state in states)

    def _seen(self, pod: Json) -> None:
        meta = pod["metadata"]
        uid = str((meta.get("annotations") or {}).get(Mirror.LOCAL_UID.value, ""))
        known = meta["uid"] in self._keys
        if not uid or (not known and len(self._keys) >= MOST_PODS):
            return
        key = Attempt(meta["namespace"], uid, mirrored_attempt(pod))
        self._keys[meta["uid"]] = key
        self._pods.setdefault(key, {})[meta["uid"]] = pod_state(pod)
        self._look(key)
        self.on_change(key)

    def _gone(self, pod: Json) -> None:
        key = self._keys.pop(pod["metadata"]["uid"], None)
        if key is None:
            return
        left = self._pods[key]
        left.pop(pod["metadata"]["uid"], None)
        if not left:  # nothing is wrong with pods that are not there
            del self._pods[key]
            self._dirty.discard(key)
            self._told.pop(key, None)
        else:
            self._look(key)
        self.on_change(key)

    def _text(self, key: Attempt) -> str:
        states = self._pods.get(key, {}).values()
        return summary(states) if troubled(states) else ""

    def _look(self, key: Attempt) -> None:
        if self._text(key) != self._told.get(key, ""):
            self._dirty.add(key)
            self._wake()

    def news(self) -> tuple[PodNews, ...]:
        """What is to be told now."""
        dirty, self._dirty = self._dirty, set()
        found = []
        for key in sorted(dirty):
            text = self._text(key)
            self._told[key] = text
            found.append(PodNews(key.local_uid, key.number, text))
        return tuple(found)
