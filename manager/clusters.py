"""Worker clusters: from MultiKueueCluster objects and Secrets to running links, and back to status.

A cluster whose kubeconfig cannot be used is shown with the reason and gets no work; the others
are not touched by it. A changed kubeconfig replaces the worker; copies on the cluster stay.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from federation.api.meta import wire_time
from federation.api.multikueue import MultiKueueCluster
from federation.api.names import (
    FEDQ_NAMESPACE,
    KUBECONFIG_KEY,
    KUEUE_NAMESPACE,
    ActiveReason,
    ConditionType,
    Controller,
    Mirror,
)
from federation.api.record import condition, find, with_conditions
from federation.edge.errors import AlreadyExists, ApiError, NotFound
from federation.edge.informer import Informer, Key, Select, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    ADMISSION_CHECKS,
    LEASES,
    MULTIKUEUE_CLUSTERS,
    MULTIKUEUE_CONFIGS,
    SECRETS,
    Json,
)
from federation.jobs.mirror import mirrored_epoch
from manager.ledger import Judge
from manager.link import ClusterLink
from manager.protocol import ClusterSpec, Health, News, Runtime

log = structlog.get_logger(__name__)

LEASE_SECONDS = 120
LEASE_RETRY_S = 5.0
STATUS_S = 0.5
FIRST_INVENTORY_S = 15.0
SUSPECT_S = 50.0
"""Silence of the agent after which its cluster gets no new work."""


@dataclass(slots=True)
class _Running:
    spec: ClusterSpec
    link: ClusterLink
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class Check:
    """An AdmissionCheck: its controller, the name of its parameters, whether it can decide."""

    controller: str
    parameters: str = ""
    active: bool = False


@dataclass(frozen=True, slots=True)
class _Lease:
    epoch: int
    renewed: str


class Clusters:
    """Starts and stops the link of each MultiKueueCluster and reports its condition Active."""

    def __init__(
        self,
        client: KubeClient,
        runtime: Runtime,
        origin: str,
        on_news: Callable[[ClusterLink, News], None],
        on_change: Callable[[], None],
    ) -> None:
        self.links: dict[str, ClusterLink] = {}
        self._client, self._runtime, self._origin = client, runtime, origin
        self.judge = Judge()
        self._on_news, self._on_change = on_news, on_change
        self.on_started: Callable[[str], None] = lambda name: None
        self.on_checks: Callable[[], None] = lambda: None
        """Hears of AdmissionChecks: whether queues are active may depend on them."""
        self._running: dict[str, _Running] = {}
        self._shown: dict[str, Health] = {}
        self._problems: dict[str, str] = {}
        self._dirty = asyncio.Event()
        self._started = asyncio.Event()
        self._dirty.set()  # what is there at start is looked at, be it nothing
        changed, rules_changed = self._changed, self._rules_changed
        self._objects: Store[Json] = Store(_keep, changed)
        self._configs: Store[list[str]] = Store(
            lambda obj: list(obj["spec"]["clusters"]), rules_changed
        )
        self._checks: Store[Check] = Store(_check, rules_changed)
        self._leases: Store[_Lease] = Store(_lease, self._renewed_now)
        self._renewed: dict[str, float] = {}
        self._secrets: Store[bytes] = Store(_kubeconfig, changed)
        self._kueue_secrets: Store[bytes] = Store(_kubeconfig, changed)
        self.informers = [
            Informer(client, MULTIKUEUE_CLUSTERS, self._objects),
            Informer(client, MULTIKUEUE_CONFIGS, self._configs),
            Informer(client, ADMISSION_CHECKS, self._checks),
            Informer(client, LEASES, self._leases, select=Select(FEDQ_NAMESPACE)),
            Informer(client, SECRETS, self._secrets, select=Select(FEDQ_NAMESPACE)),
            Informer(client, SECRETS, self._kueue_secrets, select=Select(KUEUE_NAMESPACE)),
        ]

    def _changed(self, key: object, old: object, new: object) -> None:
        self._dirty.set()
        self._on_change()

    def _rules_changed(self, key: object, old: object, new: object) -> None:
        self.on_checks()
        self._on_change()

    def _renewed_now(self, key: Key, old: _Lease | None, new: _Lease | None) -> None:
        """Count from when a renewal was seen here, never from the time another machine wrote."""
        if new is None:
            self._dirty.set()  # somebody deleted it: it is made again
        elif new.renewed:
            self._renewed[key[1]] = time.monotonic()

    def epoch(self, cluster: str) -> int:
        """Epoch of the cluster's Lease: carried by every offer."""
        lease = self._leases.items.get((FEDQ_NAMESPACE, cluster))
        return lease.epoch if lease else 1

    def look(self) -> None:
        """Say `on_change` if a cluster begins or ceases to take work: an agent's silence is no
        event, and one that is well again may have nothing new to report.
        """
        problems = {name: self.problem(link) for name, link in self.links.items()}
        if problems != self._problems:
            self._problems = problems
            self._on_change()

    def problem(self, link: ClusterLink) -> str:
        """Why a cluster takes no new work now; '' if it does."""
        health = self._health_of(link)
        return "" if health.ok else f"{health.reason}: {health.message}"

    def _health_of(self, link: ClusterLink) -> Health:
        if not link.health.ok:
            return link.health
        if link.ledger.unreadable:
            return Health(
                False, ActiveReason.UNREADABLE_WORKER_REPORT.value, link.ledger.unreadable
            )
        if not link.ledger.reported:
            text = "the agent has published no WorkerReport yet: is it running?"
            return Health(False, ActiveReason.NO_WORKER_REPORT.value, text)
        renewed = self._renewed.get(link.name)
        if renewed is None:
            return Health(
                False, ActiveReason.AGENT_SILENT.value, "the agent has not renewed its Lease yet"
            )
        if time.monotonic() - renewed > SUSPECT_S:
            text = f"the agent has not renewed its Lease for more than {SUSPECT_S:.0f} s"
            return Health(False, ActiveReason.AGENT_SILENT.value, text)
        return link.health

    def offer_void(self, uid: str, cluster: str) -> None:
        """An offer that was decided on is not made."""
        if (link := self.links.get(cluster)) is not None:
            link.ledger.ended(uid, 0)

    def clusters_for(self, checks: tuple[str, ...]) -> list[str] | str:
        """Clusters that a queue with these checks may use, in order; or what is wrong."""
        name = self.multikueue_check(checks)
        if not name:
            return sorted(self.links)
        config = self._checks.items["", name].parameters
        clusters = self._configs.items.get(("", config))
        if clusters is None:
            return f"AdmissionCheck {name} names MultiKueueConfig {config}, which is missing"
        return clusters

    def check(self, name: str) -> Check | None:
        """An AdmissionCheck. Whether MultiKueue's are active is known here."""
        found = self._checks.items.get(("", name))
        if found is None or found.controller != Controller.MULTIKUEUE:
            return found
        return replace(found, active=("", found.parameters) in self._configs.items)

    def multikueue_check(self, checks: tuple[str, ...]) -> str:
        """The one among a queue's checks that is MultiKueue's; '' if none is."""
        for name in checks:
            found = self._checks.items.get(("", name))
            if found is not None and found.controller == Controller.MULTIKUEUE:
                return name
        return ""

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
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._show_status())
                while True:
                    await self._dirty.wait()
                    self._dirty.clear()
                    await self._converge(tasks)
                    self._started.set()
        finally:
            for running in self._running.values():
                running.task.cancel()

    async def _converge(self, tasks: asyncio.TaskGroup) -> None:
        wanted = {name: self._spec(obj) for (_, name), obj in self._objects.items.items()}
        for name, running in list(self._running.items()):
            if wanted.get(name) != running.spec:
                running.task.cancel()
                del self._running[name], self.links[name]
                log.info("cluster.stopped", cluster=name)
        for name, spec in wanted.items():
            if spec is not None and name not in self._running:
                await self._start(name, spec, tasks)
        for name in self._running:
            if (FEDQ_NAMESPACE, name) not in self._leases.items:
                await self._create_lease(name)

    async def _start(self, name: str, spec: ClusterSpec, tasks: asyncio.TaskGroup) -> None:
        handle = await self._runtime.start(spec)
        link = ClusterLink(name, handle, self._on_news, self.judge)
        self.links[name] = link
        self._running[name] = _Running(spec, link, tasks.create_task(_until_cancelled(link)))
        self.on_started(name)
        log.info("cluster.started", cluster=name, runtime=self._runtime.name)
        self._on_change()

    def _spec(self, obj: Json) -> ClusterSpec | None:
        """None while there is no kubeconfig to connect with."""
        name = obj["metadata"]["name"]
        kubeconfig = self._kubeconfig_of(obj)
        return ClusterSpec(name, kubeconfig, self._origin) if kubeconfig else None

    def _kubeconfig_of(self, obj: Json) -> bytes | None:
        source = MultiKueueCluster.from_wire(obj).spec.cluster_source
        config = source.kube_config if source else None
        if config is None or config.location_type != "Secret":
            return None
        name = config.location
        return self._secrets.items.get((FEDQ_NAMESPACE, name)) or self._kueue_secrets.items.get(
            (KUEUE_NAMESPACE, name)
        )

    async def _create_lease(self, name: str) -> None:
        """Create the Lease that the cluster's agent renews; its epoch fences what we write."""
        body: Json = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": FEDQ_NAMESPACE,
                "annotations": {Mirror.EPOCH.value: "1"},
            },
            "spec": {"leaseDurationSeconds": LEASE_SECONDS, "leaseTransitions": 1},
        }
        try:
            await self._client.create(LEASES, body)
        except AlreadyExists:
            log.debug("lease.exists", cluster=name)
        except ApiError as error:
            log.error("lease.not_created", cluster=name, error=str(error))
            asyncio.get_running_loop().call_later(LEASE_RETRY_S, self._dirty.set)

    async def _show_status(self) -> None:
        """Write condition Active where it differs from what is shown."""
        while True:
            self.look()
            for (_, name), obj in list(self._objects.items.items()):
                health = self._health(name, obj)
                if self._shown.get(name) != health:
                    await self._write_status(name, obj, health)
            await asyncio.sleep(STATUS_S)  # health comes in bursts; people read it later

    def _health(self, name: str, obj: Json) -> Health:
        link = self.links.get(name)
        if link is None:
            return Health(False, ActiveReason.BAD_KUBE_CONFIG.value, _missing_secret(obj))
        return self._health_of(link)

    async def _write_status(self, name: str, obj: Json, health: Health) -> None:
        status = obj.get("status") or {}
        wanted = condition(ConditionType.ACTIVE, health.ok, health.reason, health.message)
        now = wire_time(datetime.now(UTC))
        current = find(status, ConditionType.ACTIVE)
        if current is None or any(current.get(key) != value for key, value in wanted.items()):
            body = {"status": {"conditions": with_conditions(status, [wanted], now)}}
            try:
                await self._client.patch(MULTIKUEUE_CLUSTERS, name, body, subresource="status")
            except NotFound:
                return
            except ApiError as error:
                log.warning("cluster.status_not_written", cluster=name, error=str(error))
                return
        self._shown[name] = health


async def _until_cancelled(link: ClusterLink) -> None:
    """A link that is stopped must not end the group it runs in."""
    try:
        await link.run()
    except asyncio.CancelledError:
        return


def _keep(obj: Json) -> Json:
    return obj


def _check(obj: Json) -> Check:
    spec, active = obj["spec"], find(obj.get("status") or {}, ConditionType.ACTIVE)
    return Check(
        str(spec.get("controllerName", "")),
        str((spec.get("parameters") or {}).get("name", "")),
        active is not None and active["status"] == "True",
    )


def _lease(obj: Json) -> _Lease:
    renewed = (obj.get("spec") or {}).get("renewTime") or ""
    return _Lease(mirrored_epoch(obj) or 1, renewed)  # its agent too can write nonsense there


def _kubeconfig(obj: Json) -> bytes | None:
    text = (obj.get("data") or {}).get(KUBECONFIG_KEY)
    return base64.b64decode(text) if text else None


def _missing_secret(obj: Json) -> str:
    source = MultiKueueCluster.from_wire(obj).spec.cluster_source
    config = source.kube_config if source else None
    if config is None:
        return "spec.clusterSource.kubeConfig is missing"
    if config.location_type != "Secret":
        return "locationType Path is not supported yet: use a Secret"
    return (
        f"Secret {FEDQ_NAMESPACE}/{config.location} with the key {KUBECONFIG_KEY} does not exist:"
        " create it"
    )
