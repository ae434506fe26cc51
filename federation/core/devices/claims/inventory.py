"""The devices and classes of one cluster, and which devices an expression chooses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

from federation.core.devices.claims.cel import CelError, CelSyntaxError, selector
from federation.core.devices.claims.claims import ClaimError, Device, DeviceClass


class Inventory:
    """The devices that may be claimed in a cluster and their classes; compared by identity.

    `elsewhere` is true where devices are on other clusters (the management cluster): what is
    asked for explicitly is then charged as it stands if a driver publishes nothing here.
    """

    def __init__(
        self,
        devices: Iterable[Device] = (),
        classes: Iterable[DeviceClass] = (),
        *,
        elsewhere: bool = False,
        before: Inventory | None = None,
    ) -> None:
        """`before` is an earlier inventory: what was found of devices that are the same objects in
        both stands.
        """
        self.devices = tuple(devices)
        self.classes = {found.name: found for found in classes}
        self.elsewhere = elsewhere
        self._extended = _serving(self.classes.values())
        self._by_driver: dict[str, list[Device]] = {}
        for device in self.devices:
            self._by_driver.setdefault(device.driver, []).append(device)
        self._matching: dict[tuple[str, tuple[str, ...]], tuple[Device, ...]] = {}
        self._verdicts: dict[tuple[str, tuple[str, ...]], dict[int, tuple[Device, bool]]] = {}
        self._earlier = before._verdicts if before is not None else {}
        self._costs: dict[Hashable, Fraction | ClaimError] = {}

    def of_driver(self, driver: str) -> Sequence[Device]:
        """All devices of a driver; of all drivers if it is empty."""
        return self._by_driver.get(driver, ()) if driver else self.devices

    def matching(self, driver: str, selectors: tuple[str, ...]) -> tuple[Device, ...]:
        """Devices of a driver for which all selectors hold. Raises ClaimError."""
        key = driver, selectors
        if key not in self._matching:
            compiled(selectors)
            known = self._earlier.get(key, {})
            found = self._verdicts[key] = {}
            for device in self.of_driver(driver):
                verdict = known.get(id(device))
                if verdict is None or verdict[0] is not device:
                    verdict = device, _all_hold(selectors, device)
                found[id(device)] = verdict
            self._matching[key] = tuple(device for device, holds in found.values() if holds)
        return self._matching[key]

    def once(self, key: Hashable, make: Callable[[], Fraction]) -> Fraction:
        """What `make` says, which is asked once for each key. Raises ClaimError, each time."""
        if key not in self._costs:
            try:
                self._costs[key] = make()
            except ClaimError as error:
                self._costs[key] = error
        found = self._costs[key]
        if isinstance(found, ClaimError):
            raise ClaimError(str(found))
        return found

    def extended(self) -> Mapping[str, str]:
        """Extended resource to the class that serves it: of several the one created last."""
        return self._extended


def _serving(classes: Iterable[DeviceClass]) -> dict[str, str]:
    found: dict[str, DeviceClass] = {}
    for item in sorted(classes, key=lambda item: item.name):
        known = found.get(item.extended_resource)
        if item.extended_resource and (known is None or item.created > known.created):
            found[item.extended_resource] = item
    return {resource: item.name for resource, item in found.items()}


def _all_hold(selectors: tuple[str, ...], device: Device) -> bool:
    for text in selectors:
        try:
            if not selector(text).matches(device):
                return False
        except CelError as error:
            where = f"device {device.pool}/{device.name} of driver {device.driver}"
            raise ClaimError(
                f"CEL evaluation failed: {error} in {_short(text)} for {where}"
            ) from None
    return True


def compiled(selectors: tuple[str, ...]) -> None:
    """Raises ClaimError if one of them cannot be read."""
    for text in selectors:
        try:
            selector(text)
        except CelSyntaxError as error:
            raise ClaimError(f"CEL compilation failed: {error} in {_short(text)}") from None


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:97] + "...")
