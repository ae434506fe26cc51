"""Worker clusters: from MultiKueueCluster objects and Secrets to running links, and back to status.

A cluster whose kubeconfig cannot be used is shown with the reason and gets no work; the others
are not touched by it. A changed kubeconfig replaces the worker; copies on the cluster stay.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from federation.api.kinds.row import Row
from federation.api.names import ActiveReason, Trait
from federation.api.orders import ClusterOrders, cluster_orders, without_agent
from federation.api.placement_rules import read_traits
from federation.core.failover import Tier
from federation.core.health import Facts, Phase
from federation.core.multikueue_check import CheckActive, Standing, bad_config, check_active
from federation.core.scoring import NO_TRAITS, ClusterTraits
from federation.edge.informer import Informer, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    MULTIKUEUE_CLUSTERS,
    Json,
)
from federation.edge.services import guard
from manager.check_status import CheckStatus
from manager.cluster_status import ClusterStatus
from manager.confirmations import Confirmations
from manager.exposure import Exposures
from manager.health import Watcher
from manager.kubeconfigs import KubeConfigs, Sources
from manager.leases import RESERVED
from manager.ledger import Judge
from manager.link import ClusterLink
from manager.membership import Check, Membership
from manager.protocol import ClusterSpec, Health, News, Runtime

log = structlog.get_logger(__name__)

STATUS_S = 0.5
FIRST_INVENTORY_S = 15.0
AWAY = (Phase.SUSPECT, Phase.FENCED, Phase.LOST, Phase.LEAVING)
"""What the Lease says counts more than what the manager sees of the API server."""
COMING = (Phase.RECOVERING, Phase.RETURNING)
SILENT = frozenset(
    {
        ActiveReason.CONNECTING,
        ActiveReason.CLIENT_CONNECTION_FAILED,
        ActiveReason.WORKER_UNAVAILABLE,
        ActiveReason.OTHER_CLUSTER,
    }
)
"""What says that the API server of a cluster has not answered. Any other problem is one of what was
configured, and moves nothing."""


@dataclass(slots=True)
class _Running:
    spec: ClusterSpec
    link: ClusterLink
    task: asyncio.Task[None]


class Clusters:
    """Starts and stops the link of each MultiKueueCluster and reports its condition Active."""

    def __init__(
        self,
        client: KubeClient,
        runtime: Runtime,
        origin: str,
        on_news: Callable[[ClusterLink, News], None],
        on_change: Callable[[], None],
        watcher: Watcher,
        offers: Exposures | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.links: dict[str, ClusterLink] = {}
        self.external: tuple[Row, ...] | None = None
        """Kinds of jobs that the configuration adds; None: Jobs alone."""
        self.off: frozenset[str] = frozenset()
        """Those that it switches off."""
        self.management = ""
        """The physical cluster of the manager, which is none of its workers; '': not known."""
        self.offers = offers or Exposures()
        self.offers.on_room = on_change
        self._runtime, self._origin = runtime, origin
        self.watcher = watcher
        watcher.names, watcher.facts, watcher.plain = self._names, self._facts, self.plain
        self.judge = Judge()
        self._on_news, self._on_change = on_news, on_change
        self.on_started: Callable[[str], None] = lambda name: None
        self.on_checks: Callable[[], None] = lambda: None
        """Hears of AdmissionChecks: whether queues are active may depend on them."""
        self._running: dict[str, _Running] = {}
        self._status = ClusterStatus(client, watcher.clock)
        self._check_status = CheckStatus(client, watcher.clock.wall)
        self._problems: dict[str, tuple[str, bool]] = {}
        self._plain: set[str] = set()
        self._dirty = asyncio.Event()
        self._started = asyncio.Event()
        self._dirty.set()  # what is there at start is looked at, be it nothing
        self._confirmations = Confirmations(client)
        self._objects: Store[Json] = Store(_keep, self._object_changed)
        self.membership = Membership(client, lambda: self.links, self._rules_changed)
        self._kubeconfigs = KubeConfigs(client, sources or Sources(), self._wake, watcher.clock)
        self.informers = [
            Informer(client, MULTIKUEUE_CLUSTERS, self._objects),
            *self.membership.informers,
            watcher.leases.informer,
            *self._kubeconfigs.informers,
        ]

    def _object_changed(self, key: tuple[str, str], old: Json | None, new: Json | None) -> None:
        self._confirmations.seen(old, new)
        if new is not None:
            (self._plain.add if without_agent(new) else self._plain.discard)(key[1])
        self._wake()

    def _wake(self) -> None:
        self._dirty.set()
        self._on_change()

    def _rules_changed(self) -> None:
        self.on_checks()
        self._on_change()

    def epoch(self, cluster: str) -> int:
        """Epoch of the cluster's Lease: carried by every offer."""
        return self.watcher.epoch(cluster)

    def orders(self) -> dict[str, ClusterOrders]:
        """What operators ordered of each cluster."""
        return {name: cluster_orders(obj) for (_, name), obj in self._objects.items.items()}

    def kubeconfig(self, cluster: str) -> bytes | None:
        """The kubeconfig by which a cluster is worked with now."""
        running = self._running.get(cluster)
        return running.spec.kubeconfig if running else None

    def plain(self, name: str) -> bool:
        """Whether plain Kueue runs a cluster, without an agent; of one that was deleted, whether it
        did.
        """
        return name in self._plain

    def traits(self, name: str) -> ClusterTraits:
        """What operators say of a cluster: labels, prices, data."""
        obj = self._objects.items.get(("", name))
        return NO_TRAITS if obj is None else read_traits(obj)

    def _names(self) -> list[str]:
        return [name for _, name in self._objects.items]

    def _facts(self, name: str) -> Facts | None:
        """What is known of a cluster beside its Lease; None if it does not exist."""
        if (obj := self._objects.items.get(("", name))) is None:
            return None
        link = self.links.get(name)
        health = self._reached(name, obj)
        return Facts(
            unusable="" if health.ok else f"{health.reason}: {health.message}",
            listed=link is not None and link.inventoried.is_set() and health.ok,
            inventory_epoch=link.ledger.inventory_epoch if link else 0,
            order=self._confirmations.order(obj),
            identity=link.identity if link else "",
            contact=health.ok or health.answered or health.reason not in SILENT,
        )

    def _reached(self, name: str, obj: Json) -> Health:
        """Whether the manager can work with a cluster, whatever its Lease says."""
        if (link := self.links.get(name)) is None:
            return self._without_link(obj)
        if not link.health.ok:
            return link.health
        if self.plain(name) and self.watcher.renewed(name):
            text = (
                f"an agent renews the Lease of this cluster, which is said to have none"
                f" ({Trait.AGENT.value}): take that annotation away, or stop the agent"
            )
            return Health(False, ActiveReason.AGENT_PRESENT.value, text)
        ledger, reason = link.ledger, ActiveReason.UNREADABLE_WORKER_REPORT
        if ledger.unreadable:
            return Health(False, reason.value, ledger.unreadable)
        if not ledger.reported and self.plain(name):
            text = "its ClusterQueues and LocalQueues have not been read yet"
            return replace(
                link.health, ok=False, reason=ActiveReason.CONNECTING.value, message=text
            )
        if not ledger.reported:
            text = "the agent has published no WorkerReport yet: is it running?"
            return Health(False, ActiveReason.NO_WORKER_REPORT.value, text)
        return link.health

    def _without_link(self, obj: Json) -> Health:
        """What to say of a cluster to which there is no link, or not yet."""
        if (name := obj["metadata"]["name"]) in RESERVED:
            text = f"a cluster cannot have the name {name}, the manager has a Lease of that name"
            return Health(False, ActiveReason.RESERVED_NAME.value, f"{text}: choose another one")
        found = self._kubeconfigs.find(obj)
        return found if isinstance(found, Health) else Health()

    def _news(self, link: ClusterLink, news: News) -> None:
        obj = self._objects.items.get(("", link.name))
        if obj is not None and news.health.reason == ActiveReason.BAD_KUBE_CONFIG.value:
            self._kubeconfigs.refused(obj)
        noted = self.watcher.leases.identity(link.name)
        if noted and news.identity not in ("", noted):  # what is there concerns no job yet
            news = replace(news, copies=(), inventory=None, report=None)
        self._on_news(link, news)
        self.watcher.look_at(link.name)

    def look(self) -> None:
        """Say `on_change` if a cluster begins or ceases to take work: an agent's silence is no
        event, and one that is well again may have nothing new to report.
        """
        problems = {
            name: (self._barred(link), self.room(name) > 0) for name, link in self.links.items()
        }
        if any(r.spec.identity != self._identity(name) for name, r in self._running.items()):
            self._dirty.set()
        if problems != self._problems:
            self._problems = problems
            self._on_change()

    def problem(self, link: ClusterLink) -> str:
        """Why a cluster takes no new work now; '' if it does."""
        silent = self.offers.of(link.name).now().silence(self.offers.limits)
        return self._barred(link) or silent

    def room(self, name: str) -> int:
        """How many more offers a cluster may get before it answers others."""
        return self.offers.of(name).now().room(self.offers.limits)

    def _barred(self, link: ClusterLink) -> str:
        """Why it takes no new work, however it answers offers."""
        obj = self._objects.items.get(("", link.name))
        if obj is None:
            return f"{Phase.LEAVING.value}: its MultiKueueCluster was deleted"
        health = self._health(link.name, obj)
        if not health.ok:
            return f"{health.reason}: {health.message}"
        cordon = cluster_orders(obj).cordon
        return f"Cordoned: {cordon}" if cordon else ""

    def _health(self, name: str, obj: Json) -> Health:
        """Whether a cluster can be worked with, as its condition Active says it."""
        verdict = self.watcher.verdict(name)
        if self.plain(name):
            return self._reached(name, obj)
        if verdict.phase in AWAY:
            suspect = verdict.phase is Phase.SUSPECT
            reason = ActiveReason.AGENT_SILENT if suspect else verdict.phase
            return Health(False, reason.value, self._status.text(verdict))
        health = self._reached(name, obj)
        if not health.ok:
            return health
        if verdict.phase is Phase.UNKNOWN:
            return Health(False, ActiveReason.AGENT_SILENT.value, verdict.cause)
        if verdict.phase in COMING:
            return Health(False, verdict.phase.value, self._status.text(verdict))
        return health

    def offer_void(self, uid: str, cluster: str) -> None:
        """An offer that was decided on is not made."""
        if (link := self.links.get(cluster)) is not None:
            link.ledger.ended(uid, 0)

    def grown(self, uid: str, cluster: str, version: int) -> None:
        """More pods of a copy run there since a version; 0: they are not to."""
        if (link := self.links.get(cluster)) is None:
            return
        if version:
            link.ledger.created(uid, version)
        else:
            link.ledger.ended(uid, 0)

    def usable(self, name: str) -> bool:
        """Whether a cluster can be worked with, cordoned or not."""
        obj = self._objects.items.get(("", name))
        return obj is not None and self._health(name, obj).ok

    async def inventoried(self) -> None:
        """Until all clusters there are have been listed once, or have had time enough for it.

        A job whose record was lost may still run somewhere: nothing is placed before its copy
        had a chance to be seen.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_INVENTORY_S):
                await self._started.wait()
                for link in list(self.links.values()):
                    await link.inventoried.wait()

    async def run(self) -> None:
        """Keep links as the objects say, until cancelled."""
        try:
            self.watcher.begin(self._phases())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.watcher.run())
                tasks.create_task(self._show_status())
                for name, service in self._kubeconfigs.services().items():
                    tasks.create_task(guard(service, name), name=name)
                while True:
                    await self._dirty.wait()
                    self._dirty.clear()
                    await self._converge(tasks)
                    self._started.set()
        finally:
            for running in self._running.values():
                running.task.cancel()

    async def _converge(self, tasks: asyncio.TaskGroup) -> None:
        self._kubeconfigs.follow(self._objects.items.values())
        wanted = {name: self._spec(obj) for (_, name), obj in self._objects.items.items()}
        for name, running in list(self._running.items()):
            if wanted.get(name) != running.spec:
                running.task.cancel()
                del self._running[name], self.links[name]
                log.info("cluster.stopped", cluster=name)
        for name, spec in wanted.items():
            if spec is not None and name not in self._running:
                await self._start(name, spec, tasks)

    async def _start(self, name: str, spec: ClusterSpec, tasks: asyncio.TaskGroup) -> None:
        handle = await self._runtime.start(spec)
        link = ClusterLink(name, handle, self._news, self.judge, self.offers.of(name))
        self.links[name] = link
        self._running[name] = _Running(spec, link, tasks.create_task(_until_cancelled(link)))
        self.on_started(name)
        log.info("cluster.started", cluster=name, runtime=self._runtime.name)
        self._on_change()

    def _spec(self, obj: Json) -> ClusterSpec | None:
        """None while there is no kubeconfig to connect with."""
        name = obj["metadata"]["name"]
        kubeconfig = None if name in RESERVED else self._kubeconfigs.find(obj)
        if not isinstance(kubeconfig, bytes):
            return None
        identity = self._identity(name)
        plain = self.plain(name)
        return ClusterSpec(
            name,
            kubeconfig,
            self._origin,
            identity,
            self.external,
            self.off,
            plain,
            self.management,
        )

    def _identity(self, name: str) -> str:
        return self.watcher.leases.identity(name)

    def _phases(self) -> dict[str, str]:
        """Where clusters stood when a manager looked last."""
        return {
            name: str(((obj.get("status") or {}).get("fedq") or {}).get("phase", ""))
            for (_, name), obj in self._objects.items.items()
        }

    async def _show_status(self) -> None:
        """Write statuses where they differ from what is shown."""
        while True:
            self.look()
            for (_, name), obj in list(self._objects.items.items()):
                await self._confirmations.settle(obj, self.watcher.verdict(name).order)
                await self._status.show(obj, self._health(name, obj), self._fedq(name, obj))
            for check in self.membership.checks:
                await self._check_status.show(check.obj, self._check_active(check))
            await asyncio.sleep(STATUS_S)  # health comes in bursts; people read it later

    def _check_active(self, check: Check) -> CheckActive:
        clusters = self.membership.clusters_of(check)
        if isinstance(clusters, str):
            return bad_config(clusters)
        standings = {
            name: Standing.USABLE if self._health(name, obj).ok else Standing.INACTIVE
            for (_, name), obj in self._objects.items.items()
        }
        return check_active(clusters, standings)

    def _fedq(self, name: str, obj: Json) -> dict[str, object]:
        verdict, link = self.watcher.verdict(name), self.links.get(name)
        tier = (link.ledger.tier if link else "") or _tier(obj)
        agent = self.watcher.heard(name) and not self.plain(name)
        shown = self._status.fedq(
            obj, verdict, tier if agent else Tier.NONE.value, self.watcher.brake
        )
        return {**shown, "order": self._confirmations.text(obj) or None}


def _tier(obj: Json) -> str:
    """What was shown of a cluster that has not reported yet."""
    known = ((obj.get("status") or {}).get("fedq") or {}).get("tier")
    return known if known in (Tier.GUARD.value, Tier.TOKEN.value) else Tier.AGENT.value


async def _until_cancelled(link: ClusterLink) -> None:
    """A link that is stopped must not end the group it runs in."""
    try:
        await link.run()
    except asyncio.CancelledError:
        return


def _keep(obj: Json) -> Json:
    return obj
