"""Informers of those kinds of jobs that a cluster serves: others wait for their CRD to appear. What
is a part of another job is not handed on.

What is served is asked of the API server's discovery: that answers for all kinds at once, and says
nothing else when a CRD was added or removed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog
from pydantic_core import from_json

from federation.api.kinds.paths import EACH, mappings
from federation.api.names import Label
from federation.core.facts import BATCH_JOB
from federation.edge.bundles import Bundles
from federation.edge.errors import ApiError, Forbidden, NotFound, Unreachable
from federation.edge.informer import Handler, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.parts import Wholes
from federation.edge.resources import resource_of
from federation.jobs.kinds.kind import JobKind

log = structlog.get_logger(__name__)

QUEUED: Final = Select(label_selector=Label.QUEUE_NAME.value)
COPIES: Final = Select(label_selector=f"{Label.QUEUE_NAME.value},{Label.MULTIKUEUE_ORIGIN.value}")
"""Of what is queued, that which a manager has sent."""
DISPATCHED: Final = Select(label_selector=f"{Label.QUEUE_NAME.value},{Label.LOCAL.value}!=true")
"""Of what is queued on a management cluster, that which is the manager's."""
LOCAL: Final = Select(
    label_selector=f"{Label.QUEUE_NAME.value},{Label.LOCAL.value}=true,"
    f"!{Label.MULTIKUEUE_ORIGIN.value}"
)
"""And that which is the agent's beside it."""
NOTHING: Final = Select(label_selector=f"{Label.QUEUE_NAME.value},!{Label.QUEUE_NAME.value}")

DISCOVER_S = 10.0
"""How often it is asked what is served."""
SETTLE_S = 10.0
"""A kind that fails to be read for as long is not waited for: a store of its own may be away, or
what converts it. One that is being read, however long it takes, is."""
LOOK_S = 1.0
"""An error is no event."""


class KindInformers:
    """Of all kinds but batch/v1 Job, which is always there. `settled` is set when what is served at
    first has been read.
    """

    def __init__(
        self,
        client: KubeClient,
        kinds: Iterable[JobKind],
        handler: Callable[[JobKind], Handler],
        *,
        select: Select,
        copies: Iterable[JobKind] = (),
        partial: bool = False,
        held: bool = False,
    ) -> None:
        """Of the kinds `copies` only what a manager has sent. `partial` and `held` say which groups
        of pods are handed on: see Bundles.
        """
        self._partial, self._held = partial, held
        self._client, self._handler = client, handler
        selects = {**dict.fromkeys(kinds, select), **dict.fromkeys(copies, COPIES)}
        self._selects = {k.name: chosen for k, chosen in selects.items()}
        self._kinds = [kind for kind in selects if kind.name != BATCH_JOB]
        self._informers: dict[str, tuple[Informer, asyncio.Task[None]]] = {}
        self.settled = asyncio.Event()
        self.on_change: Callable[[frozenset[str]], None] = lambda served: None
        """Told the names of the kinds that are served, at first and when others are."""
        self.on_read: Callable[[], None] = lambda: None
        """Called when `read` is another set."""
        self.on_part: Callable[[str, dict[str, Any]], None] = lambda type, part: None
        """Told of changes of what is a part of another job; see Wholes."""
        self._told: set[str] | None = None

    @property
    def served(self) -> frozenset[str]:
        """Names of the kinds that are followed."""
        return frozenset(self._informers)

    @property
    def read(self) -> frozenset[str]:
        """Names of those whose objects have been listed."""
        return frozenset(
            n for n, (informer, _) in self._informers.items() if informer.synced.is_set()
        )

    def errors(self) -> list[ApiError]:
        """Why there is no contact about some of them."""
        found = (informer.error for informer, _ in self._informers.values())
        return [error for error in found if error is not None]

    async def run(self) -> None:
        """Follow what is served until cancelled; ends with what a handler raises."""
        if not self._kinds:
            self.settled.set()
            await asyncio.Event().wait()
        settling: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    self._arrange(tasks, await self._discover())
                    settling = settling or tasks.create_task(self._settle(), name="kinds/settle")
                except ApiError as error:
                    log.debug("kinds.not_discovered", error=str(error))
                # Discovery cannot be watched; a kind that appears later may wait for so long.
                await asyncio.sleep(DISCOVER_S)  # see above

    async def _discover(self) -> set[str]:
        groups = await served_versions(self._client)
        wanted = {(kind.group, kind.version) for kind in self._kinds}
        found: set[str] = set()
        for group in wanted & (groups | {("", "v1")}):
            kinds = [kind for kind in self._kinds if (kind.group, kind.version) == group]
            try:
                there = await plurals(self._client, *group)
            except Unreachable:
                raise
            except ApiError as error:  # of that group alone, as when others serve it
                log.warning("kinds.group_unknown", group="/".join(group), error=str(error))
                found |= {kind.name for kind in kinds if kind.name in self._informers}
            else:
                found |= {kind.name for kind in kinds if kind.plural in there}
        return found

    def _arrange(self, tasks: asyncio.TaskGroup, there: set[str]) -> None:
        for kind in self._kinds:
            if kind.name in there and kind.name not in self._informers:
                handler: Handler = self._handler(kind)
                if kind.bundled:
                    handler = Bundles(handler, partial=self._partial, held=self._held)
                else:
                    handler = Wholes(handler, self._has_part)
                select = self._selects[kind.name]
                informer = Informer(self._client, resource_of(kind), handler, select=select)
                informer.on_synced = self._has_read
                task = tasks.create_task(informer.run(), name=f"informer/{kind.plural}")
                self._informers[kind.name] = informer, task
            elif kind.name not in there and kind.name in self._informers:
                # Its objects went with it, one by one, and the watch has told of each.
                self._informers.pop(kind.name)[1].cancel()
                self.on_read()
        if there != self._told:
            self._told = there
            self.on_change(self.served)
            skipped = [kind.name for kind in self._kinds if kind.name not in there]
            log.info(
                "kinds.followed",
                cluster=self._client.cluster,
                kinds=sorted(there),
                skipped_without_crd=skipped,
            )

    def _has_part(self, type: str, part: dict[str, Any]) -> None:
        self.on_part(type, part)

    def _has_read(self) -> None:
        self.on_read()

    async def _settle(self) -> None:
        end = asyncio.get_running_loop().time() + SETTLE_S
        for name in list(self._informers):
            await self._read(name, end)
        self.settled.set()

    async def _read(self, name: str, end: float) -> None:
        """Until a kind has been read, is gone, may not be read, or cannot be at the time `end`: it
        is followed as soon as it can, and holds up nobody until then.
        """
        loop = asyncio.get_running_loop()
        while (known := self._informers.get(name)) is not None and not known[0].synced.is_set():
            error, late = known[0].error, loop.time() >= end
            if isinstance(error, Forbidden | NotFound) or (error is not None and late):
                log.warning("kinds.not_read", kind=name, error=str(error))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await known[0].synced.wait()


async def served_versions(client: KubeClient) -> set[tuple[str, str]]:
    """Group and version of all that a cluster serves beside the core group."""
    found = await _answer(client, "/apis")
    return {
        (str(group.get("name")), str(version.get("version")))
        for group in mappings(found, ("groups", EACH))
        for version in mappings(group, ("versions", EACH))
    }


async def plurals(client: KubeClient, group: str, version: str) -> set[str]:
    """The resource types of a group and version; empty if it is not served."""
    found = await _answer(client, f"/apis/{group}/{version}" if group else f"/api/{version}")
    return {str(resource.get("name")) for resource in mappings(found, ("resources", EACH))}


async def _answer(client: KubeClient, path: str) -> Any:
    """What discovery says of a path; None if there is no such path."""
    try:
        return from_json(await client.raw("GET", path))
    except NotFound:
        return None
    except ValueError as error:  # a proxy in between, or a body cut short
        raise Unreachable(
            f"GET {path} on cluster {client.cluster}: the answer is no JSON: {error}"
        ) from None


async def served(client: KubeClient, kind: JobKind) -> bool:
    """Whether a cluster serves a kind."""
    return kind.plural in await plurals(client, kind.group, kind.version)
