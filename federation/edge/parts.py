"""Objects of kinds of jobs that another job is made of: KubeRay, for one, gives the clusters of
RayJobs and RayServices all their labels and annotations, queue name and marks of copies included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from federation.api.kinds.parts import is_part
from federation.edge.informer import Handler

Json = dict[str, Any]


class Wholes:
    """Hands on to a handler what is no part of another job, and tells of what is one."""

    def __init__(self, handler: Handler, part: Callable[[str, Json], None]) -> None:
        """`part` is called with the type of an event, ADDED in a listing, and the object."""
        self._handler, self._part = handler, part

    def on_list(self, items: Sequence[Json], resource_version: str) -> Awaitable[None] | None:
        """See Handler."""
        for part in filter(is_part, items):
            self._part("ADDED", part)
        return self._handler.on_list([one for one in items if not is_part(one)], resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        if is_part(obj):
            self._part(type, obj)
        else:
            self._handler.on_event(type, obj)
