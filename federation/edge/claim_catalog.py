"""What a cluster says of Dynamic Resource Allocation: templates and classes, devices, claims.

Watched only when somebody wants it. A cluster that does not serve `resource.k8s.io/v1` is asked
again now and then; pods with claims are told why they wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import structlog

from federation.core.devices.cards import Host
from federation.core.devices.claims.cards import hosts
from federation.core.devices.claims.claims import ClaimSpec, Device, DeviceClass, DeviceRules
from federation.core.devices.claims.holdings import Allocated, holdings_of
from federation.core.devices.claims.inventory import Inventory
from federation.core.devices.claims.pools import PoolSlice, complete
from federation.core.devices.ledger.holding import Holding
from federation.edge.errors import ApiError, NotFound
from federation.edge.informer import Informer, Key, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Json,
)
from federation.edge.services import vital
from federation.jobs.claim_objects import read_allocation, read_class, read_slice, read_template
from federation.jobs.claims import Claims

log = structlog.get_logger(__name__)
T = TypeVar("T")

ASK_AGAIN_S: Final = 60.0
RETRY_S: Final = 2.0
UNWANTED: Final = (
    "the configuration has no resources.deviceClassMappings, so no quota is known for its devices"
)
NOT_SERVED: Final = (
    "this cluster does not serve resource.k8s.io/v1 (Kubernetes does from 1.34), so it has no"
    " devices that could be claimed"
)
UNREAD: Final = "the devices and classes of this cluster have yet to be read"


class ClaimCatalog:
    """Kept up to date from when it is wanted. `settled` is set once it is known whether there is
    such a thing here, and all of it has been read.
    """

    def __init__(
        self, client: KubeClient, changed: Callable[[], None], *, elsewhere: bool = False
    ) -> None:
        """`changed` hears when claims may cost something else. With `elsewhere` the devices are
        those of other clusters.
        """
        self.settled = asyncio.Event()
        self.absent = UNWANTED
        self.on_claim: Callable[[Key], None] = lambda key: None
        """Called with namespace and name of a claim whose allocation changed."""
        self.on_devices: Callable[[], None] = lambda: None
        """Called when devices have changed."""
        self._client, self._changed, self._elsewhere = client, changed, elsewhere
        self._wanted = asyncio.Event()
        self._error: ApiError | None = None
        self._cache: dict[str, Any] = {}
        self._last: Inventory | None = None
        self._templates: Store[ClaimSpec | str] = Store(_template, self._news)
        self._classes: Store[DeviceClass] = Store(_reader(read_class), self._news)
        self._slices: Store[PoolSlice] = Store(_reader(read_slice), self._devices_news)
        self._claims: Store[Allocated] = Store(
            _reader(read_allocation), lambda key, old, new: self.on_claim(key)
        )
        self.informers = [
            Informer(client, RESOURCE_CLAIM_TEMPLATES, self._templates),
            Informer(client, DEVICE_CLASSES, self._classes),
            Informer(client, RESOURCE_SLICES, self._slices),
            Informer(client, RESOURCE_CLAIMS, self._claims),
        ]

    def want(self) -> None:
        """Claims are to be counted, or devices to be known."""
        if not self._wanted.is_set():
            self.absent = UNREAD
            self._wanted.set()

    async def run(self) -> None:
        """Watch from when it is wanted, until cancelled."""
        await self._wanted.wait()
        await self._until_served()
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(vital(informer.run(), f"informer/{informer.resource.plural}"))
            for informer in self.informers:
                await informer.synced.wait()
            self._settle("")

    async def ready(self) -> None:
        """Wait until it is settled, if it is wanted at all."""
        if self._wanted.is_set():
            await self.settled.wait()

    def errors(self) -> list[str]:
        """Why there is no contact; empty while there is."""
        found = [informer.error for informer in self.informers] if self._watched else [self._error]
        return [str(error) for error in found if error is not None]

    @property
    def _watched(self) -> bool:
        return any(informer.synced.is_set() for informer in self.informers)

    async def _until_served(self) -> None:
        """Wait until the cluster serves it; what it says until then is in `absent`."""
        while True:
            try:
                await self._client.list(DEVICE_CLASSES)
                self._error = None
                return
            except NotFound:
                self._error = None
                if self.absent != NOT_SERVED:
                    log.warning("claims.not_served", cluster=self._client.cluster)
                    self._settle(NOT_SERVED)
            except ApiError as error:
                self._error = error
                log.warning("claims.unknown", error=str(error))
            # What is not served cannot be watched: nothing will announce it.
            await asyncio.sleep(RETRY_S if self._error else ASK_AGAIN_S)

    def _settle(self, absent: str) -> None:
        self.absent = absent
        self._cache.clear()
        self.settled.set()
        self.on_devices()
        self._changed()

    # What others ask

    def of(self, namespace: str, rules: DeviceRules) -> Claims:
        """What is known of claims in a namespace; equal until something changes."""
        templates = self._once("templates", self._by_namespace).get(namespace, _NONE)
        return Claims(rules, templates, self.inventory, self.absent)

    @property
    def inventory(self) -> Inventory:
        """Devices of complete pools, and all classes."""
        return self._once("inventory", self._new_inventory)

    def _new_inventory(self) -> Inventory:
        self._last = Inventory(
            self._devices,
            self._classes.items.values(),
            elsewhere=self._elsewhere,
            before=self._last,
        )
        return self._last

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The cards that are published as devices, by node."""
        return self._once("hosts", lambda: hosts(self._devices))

    def holdings(self, key: Key) -> list[Holding]:
        """What a claim holds of cards; empty if it has no allocation (any more)."""
        claim = self._claims.items.get(key)
        return holdings_of(claim, self._by_key) if claim else []

    @property
    def allocated(self) -> Mapping[Key, Allocated]:
        """All claims with an allocation, by namespace and name."""
        return self._claims.items

    @property
    def _devices(self) -> tuple[Device, ...]:
        return self._once("devices", lambda: complete(self._slices.items.values()))

    @property
    def _by_key(self) -> dict[tuple[str, str, str], Device]:
        return self._once("keys", lambda: {device.key: device for device in self._devices})

    def _by_namespace(self) -> dict[str, dict[str, ClaimSpec | str]]:
        found: dict[str, dict[str, ClaimSpec | str]] = {}
        for (namespace, name), spec in self._templates.items.items():
            found.setdefault(namespace, {})[name] = spec
        return found

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Made once between two changes."""
        if name not in self._cache:
            self._cache[name] = make()
        found: T = self._cache[name]
        return found

    # News

    def _news(self, key: Key, old: object, new: object) -> None:
        """A template changed, or (without a namespace) a class."""
        kept = {"devices", "keys", "hosts"} | ({"inventory"} if key[0] else set())
        self._cache = {name: value for name, value in self._cache.items() if name in kept}
        if self.settled.is_set():
            self._changed()

    def _devices_news(self, key: Key, old: object, new: object) -> None:
        """A part of a pool changed."""
        templates = self._cache.get("templates")
        self._cache = {} if templates is None else {"templates": templates}
        if self.settled.is_set():
            self.on_devices()
            self._changed()


_NONE: Final[Mapping[str, ClaimSpec | str]] = {}


def _template(obj: Json) -> ClaimSpec | str:
    try:
        return read_template(obj)
    except (ValueError, KeyError) as error:
        return str(error)


def _reader(read: Callable[[Json], T | None]) -> Callable[[Json], T | None]:
    def project(obj: Json) -> T | None:
        try:
            return read(obj)
        except (ValueError, KeyError) as error:
            meta = obj["metadata"]
            log.error(
                "claims.unreadable", kind=obj.get("kind"), name=meta["name"], error=str(error)
            )
            return None

    return project
