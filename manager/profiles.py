"""Kubeconfigs of ClusterProfiles: the profile has the address, a plugin the credentials.

Profiles are watched from when the first MultiKueueCluster names one: their CRD need not be there.
A credential is asked for again before it expires and when the cluster refuses it; one that cannot
be renewed is used for as long as it is valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog

from federation.api.cluster_profile import Access, Credential, access_of, kubeconfig, offered
from federation.api.configuration_multikueue import AccessProvider
from federation.api.meta import wire_time
from federation.api.names import FEDQ_NAMESPACE, KUEUE_NAMESPACE, ActiveReason
from federation.edge.errors import ConfigError, NotFound
from federation.edge.exec_plugin import PluginError, run_plugin
from federation.edge.informer import Informer, Select, Store
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import parse_untrusted
from federation.edge.resources import CLUSTER_PROFILES, Json
from federation.edge.services import vital
from manager.clock import Clock
from manager.protocol import Health

log = structlog.get_logger(__name__)

RENEW_BEFORE_S = 60.0
FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 320.0
REFUSED_PAUSE_S = 10.0
"""A plugin that has answered is asked again at most this often."""


@dataclass(slots=True)
class _Account:
    """What is known of the credential for one profile."""

    access: Access
    credential: Credential | None = None
    problem: str = ""
    refused: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Profiles:
    """One per manager. `providers` is None where profiles are switched off."""

    def __init__(
        self,
        client: KubeClient,
        providers: Mapping[str, AccessProvider] | None,
        changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._providers, self._changed, self._clock = providers, changed, clock
        self._wanted: frozenset[str] = frozenset()
        self._news = asyncio.Event()
        self._accounts: dict[str, _Account] = {}
        self._stores = [Store[Json](_keep, self._seen) for _ in range(2)]
        self._informers = [
            Informer(client, CLUSTER_PROFILES, store, select=Select(namespace))
            for store, namespace in zip(
                self._stores, (FEDQ_NAMESPACE, KUEUE_NAMESPACE), strict=True
            )
        ]

    def _seen(self, key: object, old: object, new: object) -> None:
        self._news.set()
        self._changed()

    def follow(self, names: Iterable[str]) -> None:
        """Have credentials for these profiles, and for no others."""
        wanted = frozenset(names) if self._providers is not None else frozenset()
        if wanted != self._wanted:
            self._wanted = wanted
            self._news.set()

    def refused(self, name: str) -> None:
        """The cluster of a profile does not accept the credential."""
        if (account := self._accounts.get(name)) is not None:
            account.refused.set()

    def find(self, name: str) -> bytes | Health:
        """The kubeconfig of a profile, or why there is none."""
        if self._providers is None:
            return _bad(
                ActiveReason.CLUSTER_PROFILE_DISABLED,
                "ClusterProfiles are switched off: set the feature gate MultiKueueClusterProfile"
                " in the Configuration of the manager, and multiKueue.clusterProfile",
            )
        profile = self._profile(name)
        if profile is None:
            return _bad(ActiveReason.BAD_CLUSTER_PROFILE, self._missing(name))
        access = access_of(profile, self._providers)
        if access is None:
            return _bad(ActiveReason.BAD_CLUSTER_PROFILE, self._unsupported(name, profile))
        account = self._accounts.get(name)
        if account is None or account.access != access or account.credential is None:
            problem = account.problem if account else ""
            text = problem or f"its credential is being asked for from {access.provider}"
            reason = ActiveReason.BAD_REST_CONFIG if problem else ActiveReason.CONNECTING
            return _bad(reason, text)
        return _checked(kubeconfig(access, account.credential), name)

    def _profile(self, name: str) -> Json | None:
        keys = zip(self._stores, (FEDQ_NAMESPACE, KUEUE_NAMESPACE), strict=True)
        found = (store.items.get((namespace, name)) for store, namespace in keys)
        return next((profile for profile in found if profile is not None), None)

    def _missing(self, name: str) -> str:
        for informer in self._informers:
            if isinstance(informer.error, NotFound):
                return f"the CRD of ClusterProfile ({CLUSTER_PROFILES.group}) is not installed"
            if informer.error is not None:
                return f"ClusterProfiles cannot be read: {informer.error}"
        if not all(informer.synced.is_set() for informer in self._informers):
            return "ClusterProfiles are being read"
        return f"ClusterProfile {FEDQ_NAMESPACE}/{name} does not exist: create it there"

    def _unsupported(self, name: str, profile: Json) -> str:
        assert self._providers is not None
        has = ", ".join(offered(profile)) or "none"
        known = ", ".join(sorted(self._providers)) or "none"
        return (
            f"ClusterProfile {name} offers the access providers {has}, and the Configuration knows"
            f" {known}: add one to multiKueue.clusterProfile.accessProviders"
        )

    async def run(self) -> None:
        """Watch profiles and keep credentials valid, until cancelled."""
        await self._news.wait()
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._informers:
                    tasks.create_task(vital(informer.run(), "informer/clusterprofiles"))
                while True:
                    await self._news.wait()
                    self._news.clear()
                    self._converge(tasks)
        finally:
            for name in list(self._accounts):
                self._drop(name)

    def _converge(self, tasks: asyncio.TaskGroup) -> None:
        assert self._providers is not None or not self._wanted
        wanted = {}
        for name in self._wanted:
            profile = self._profile(name)
            access = access_of(profile, self._providers or ()) if profile else None
            if access is not None:
                wanted[name] = access
        for name, account in list(self._accounts.items()):
            if wanted.get(name) != account.access:
                self._drop(name)
        for name, access in wanted.items():
            if name not in self._accounts:
                account = self._accounts[name] = _Account(access)
                account.task = tasks.create_task(_until_cancelled(self._renew(name, account)))

    def _drop(self, name: str) -> None:
        account = self._accounts.pop(name)
        if account.task is not None:
            account.task.cancel()

    async def _renew(self, name: str, account: _Account) -> None:
        assert self._providers is not None
        failures = 0
        while True:
            account.refused.clear()
            config = self._providers[account.access.provider].exec_config
            try:
                account.credential = await run_plugin(config, account.access)
                failures, account.problem = 0, ""
                pause = self._valid_for(account.credential)
            except PluginError as error:
                failures += 1
                pause = min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 10), LONGEST_RETRY_S)
                account.problem = self._attempts(str(error), failures, pause)
                if account.credential is not None and self._expired(account.credential):
                    account.credential = None
                log.warning("profile.no_credential", profile=name, why=account.problem)
            self._changed()
            await self._pause(account, pause)

    def _expired(self, credential: Credential) -> bool:
        expires = credential.expires
        return expires is not None and expires <= self._clock.wall().timestamp()

    def _valid_for(self, credential: Credential) -> float | None:
        """Seconds until it has to be renewed; None for ever."""
        if credential.expires is None:
            return None
        return max(0.0, credential.expires - RENEW_BEFORE_S - self._clock.wall().timestamp())

    async def _pause(self, account: _Account, seconds: float | None) -> None:
        """Until it is time, or the credential is refused; then not at once, a plugin costs."""
        try:
            async with asyncio.timeout(None if seconds is None else max(seconds, REFUSED_PAUSE_S)):
                await account.refused.wait()
        except TimeoutError:
            return
        await asyncio.sleep(REFUSED_PAUSE_S)  # a limit on runs of the plugin

    def _attempts(self, text: str, failures: int, pause: float) -> str:
        at = wire_time(self._clock.wall() + timedelta(seconds=pause))
        return f"{text} (attempts so far: {failures}, the next one at {at})"


def _checked(text: bytes, name: str) -> bytes | Health:
    try:
        parse_untrusted(text, name)
    except ConfigError as error:
        return _bad(ActiveReason.BAD_REST_CONFIG, f"ClusterProfile {name}: {error}")
    return text


def _bad(reason: ActiveReason, text: str) -> Health:
    return Health(False, reason.value, text)


def _keep(obj: Json) -> Json:
    return obj


async def _until_cancelled(coro: Coroutine[Any, Any, None]) -> None:
    """A task that is stopped must not end the group it runs in."""
    try:
        await coro
    except asyncio.CancelledError:
        return
