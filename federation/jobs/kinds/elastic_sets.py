"""Pod sets of the generic adapter whose numbers may change while they run, as the table says.

What a copy is told is, by pod set, the field with the number and the two that bound it: a
controller that keeps to bounds would make other pods than those that are charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from federation.api.kinds.paths import Place, first, mapping, number, places, put
from federation.api.kinds.row import Role, Row
from federation.api.record import is_elastic
from federation.core.elastic import counts
from federation.core.sizes import Counts, fewest
from federation.core.types import Admission
from federation.jobs import template
from federation.jobs.elastic import whole
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.parts import name_of
from federation.jobs.kinds.shape import shaped

Json = dict[str, Any]


class ElasticSets:
    """The part of a kind that changes its numbers; see JobKind."""

    row: Row

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        raise NotImplementedError

    @property
    def _changes(self) -> bool:
        return any(role.elastic for role in self.row.roles)

    def elastic(self, obj: Json) -> bool:
        """See JobKind."""
        return self._changes and is_elastic(obj)

    def at_once(self, obj: Json) -> Counts:
        """See JobKind."""
        if not self._changes:
            return {}
        return {role.name: max(0, role.count) for role in self.roles(obj)}

    def steps(self, obj: Json) -> Counts:
        """See LocalJob: groups of which one replica is several pods."""
        found = {name_of(role, at): _hosts(role, at) for _, role, at in _sets(self.row, obj)}
        return {name: hosts for name, hosts in found.items() if hosts > 1}

    def resized(self, obj: Json, pods: Counts) -> Json:
        """See JobKind. The bounds are those that the object has now."""
        said: Json = {}
        for _, role, holder in _sets(self.row, obj):
            name = name_of(role, holder)
            count = pods.get(name, 0) // _hosts(role, holder)
            replicas, least, most = role.elastic
            lowest = number(holder, (least,), 0)
            said[name] = {replicas: count, least: min(lowest, count), most: holder.get(most)}
        return said

    def sized(self, copy: Json, said: Json) -> Counts:
        """See JobKind."""
        if not said:
            return {}
        found, known = dict(self.at_once(copy)), set[str]()
        for _, role, holder in _sets(self.row, copy):
            name = name_of(role, holder)
            if name not in said:
                continue
            if not _readable(role, said[name]):
                return {}
            known.add(name)
            found[name] = said[name][role.elastic[0]] * _hosts(role, holder)
        return found if known == said.keys() else {}

    def resize(self, copy: Json, said: Json) -> Json:
        """See JobKind. Lists are replaced as wholes, so that the version is a precondition."""
        made = self._applied(copy, said)
        return template.merge_patch(mapping(copy, ("spec",)), mapping(made, ("spec",)))

    def no_larger(self, body: Json, admission: Admission) -> Json:
        """A copy to be made, with no more pods of a set than were admitted."""
        asked = self.at_once(body)
        left = fewest(asked, counts(admission))
        return body if left == asked else self._applied(body, self.resized(body, left))

    def _applied(self, copy: Json, said: Json) -> Json:
        made = copy
        for place, role, holder in _sets(self.row, copy):
            told = said.get(name_of(role, holder), {})
            for field in role.elastic:
                if field in told:
                    made = put(made, (*place, field), told[field])
        return made


def _sets(row: Row, obj: Json) -> Iterator[tuple[Place, Role, Json]]:
    """Where pods are described whose number may change."""
    for role in row.roles:
        if not role.elastic:
            continue
        for place, holder in places(obj, role.at):
            if isinstance(holder, dict) and shaped(first(holder, role.template)):
                yield place, role, holder


def _hosts(role: Role, holder: Json) -> int:
    return max(1, number(holder, role.hosts, 1)) if role.hosts else 1


def _readable(role: Role, told: Any) -> bool:
    if not isinstance(told, dict) or not whole(told.get(role.elastic[0])):
        return False
    return all(told.get(bound) is None or whole(told[bound]) for bound in role.elastic[1:])
