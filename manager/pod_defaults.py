"""What the pods of each namespace were read with, and which of them may request something else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from federation.core.facts import JobState, LocalJob
from federation.edge.resources import Json
from federation.jobs.containers import PodDefaults
from federation.jobs.kinds.kind import Kinds


class Change(NamedTuple):
    """Of one namespace."""

    before: PodDefaults
    now: PodDefaults

    def concerns(self, templates: Iterable[Json]) -> bool:
        """Whether pods of these templates may request something else now."""
        return any(self.now.matters(self.before, found.get("spec") or {}) for found in templates)

    def may_concern(self, local: LocalJob) -> bool:
        """The same of a Job of which no more is known than its facts."""
        if self.now.claims is None:
            return False
        mapped = {mapping.resource for mapping in self.now.claims.rules.mappings}
        return bool(local.problem) or any(mapped & p.requests.keys() for p in local.pod_sets)


class KnownDefaults:
    """Remembers what `find` said of each namespace."""

    def __init__(self, find: Callable[[str], PodDefaults], kinds: Kinds) -> None:
        self._find, self._kinds = find, kinds
        self._known: dict[str, PodDefaults] = {}

    def of(self, namespace: str) -> PodDefaults:
        """What its Jobs are read with until `stale` asks again."""
        if namespace not in self._known:
            self._known[namespace] = self._find(namespace)
        return self._known[namespace]

    def stale(
        self, states: Mapping[str, JobState], bodies: Mapping[str, Json]
    ) -> list[tuple[str, LocalJob, Json | None]]:
        """Ask again, and find the waiting Jobs that have to be read again; with the whole Job if it
        is in memory.
        """
        changes = self._refresh()
        found: list[tuple[str, LocalJob, Json | None]] = []
        for uid, state in states.items() if changes else ():
            local, body = state.local, bodies.get(uid)
            change = changes.get(local.key.namespace) if local else None
            if local is None or change is None or state.bound is not None:
                continue
            if change.may_concern(local) if body is None else change.concerns(self._pods(body)):
                found.append((uid, local, body))
        return found

    def _pods(self, job: Json) -> list[Json]:
        return [role.template for role in self._kinds.of(job).roles(job)]

    def _refresh(self) -> dict[str, Change]:
        before = self._known
        self._known = {namespace: self._find(namespace) for namespace in before}
        return {
            namespace: Change(before[namespace], now)
            for namespace, now in self._known.items()
            if now != before[namespace]
        }
