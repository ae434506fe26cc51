"""Objects of `resource.k8s.io/v1` from the wire. Raises ValueError for what cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from federation.core.devices.claims.cel_values import version
from federation.core.devices.claims.claims import (
    Alternatives,
    Attribute,
    Capacity,
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceTaint,
    Mode,
    qualified,
)
from federation.core.devices.claims.holdings import Allocated, Result
from federation.core.devices.claims.pools import PoolSlice
from federation.core.quantity import QuantityError, exact_quantity

Json = dict[str, Any]


def read_template(obj: Json) -> ClaimSpec:
    """What claims made of a ResourceClaimTemplate ask for."""
    return read_claim(_map(obj.get("spec")))


def read_claim(obj: Json) -> ClaimSpec:
    """What a ResourceClaim asks for, by its `spec`."""
    devices = _map(_map(obj.get("spec")).get("devices"))
    requests = (_map(item) for item in _list(devices.get("requests")))
    return ClaimSpec(tuple((str(item.get("name", "")), _request(item)) for item in requests))


def _request(item: Json) -> DeviceRequest | Alternatives:
    if item.get("firstAvailable"):
        return Alternatives(tuple(_exact(_map(part)) for part in _list(item["firstAvailable"])))
    if not item.get("exactly"):
        raise ValueError("a request has neither exactly nor firstAvailable")
    return _exact(_map(item["exactly"]))


def _exact(item: Json) -> DeviceRequest:
    capacity = _map(_map(item.get("capacity")).get("requests"))
    return DeviceRequest(
        device_class=str(item.get("deviceClassName") or ""),
        count=_int(item.get("count"), 1),
        selectors=_selectors(item),
        capacity=tuple(sorted((name, _amount(name, value)) for name, value in capacity.items())),
        mode=str(item.get("allocationMode") or Mode.EXACT_COUNT.value),
        admin_access=item.get("adminAccess") is True,
    )


def _selectors(item: Json) -> tuple[str, ...]:
    wire = (_map(entry).get("cel") for entry in _list(item.get("selectors")))
    return tuple(str(_map(cel).get("expression", "")) for cel in wire if cel)


def read_class(obj: Json) -> DeviceClass:
    """A DeviceClass."""
    meta, spec = _map(obj["metadata"]), _map(obj.get("spec"))
    return DeviceClass(
        str(meta["name"]),
        _selectors(spec),
        str(spec.get("extendedResourceName") or ""),
        str(meta.get("creationTimestamp") or ""),
    )


def read_slice(obj: Json) -> PoolSlice:
    """A ResourceSlice. A device that stands on no single node has no `node`."""
    spec = _map(obj.get("spec"))
    pool, driver = _map(spec.get("pool")), str(spec["driver"])
    node = str(spec.get("nodeName") or "")
    name = str(pool["name"])
    devices = (_map(item) for item in _list(spec.get("devices")))
    return PoolSlice(
        driver,
        name,
        _int(pool.get("generation"), 0),
        _int(pool.get("resourceSliceCount"), 1),
        tuple(_device(item, driver, name, node) for item in devices),
    )


def read_allocation(obj: Json) -> Allocated | None:
    """What a ResourceClaim got; None if it has no allocation."""
    meta, status = _map(obj["metadata"]), _map(obj.get("status"))
    if not status.get("allocation"):
        return None
    allocation = _map(status["allocation"])
    results = _list(_map(allocation.get("devices")).get("results"))
    consumers = (_map(entry) for entry in _list(status.get("reservedFor")))
    pods = sorted(str(entry["uid"]) for entry in consumers if entry.get("resource") == "pods")
    return Allocated(
        str(meta["uid"]),
        str(meta.get("namespace") or ""),
        tuple(pods),
        _only_node(_map(allocation.get("nodeSelector"))),
        tuple(_result(_map(item)) for item in results),
    )


def _only_node(selector: Json) -> str:
    """The node that a selector names; '' if it does not name one."""
    for term in map(_map, _list(selector.get("nodeSelectorTerms"))):
        for match in map(_map, _list(term.get("matchFields"))):
            values = _list(match.get("values"))
            if match.get("key") == "metadata.name" and len(values) == 1:
                return str(values[0])
    return ""


def _result(item: Json) -> Result:
    consumed = _map(item.get("consumedCapacity"))
    return Result(
        str(item["driver"]),
        str(item["pool"]),
        str(item["device"]),
        tuple(sorted((name, _amount(name, value)) for name, value in consumed.items())),
        item.get("adminAccess") is True,
    )


def _device(item: Json, driver: str, pool: str, node: str) -> Device:
    attributes = _map(item.get("attributes")).items()
    capacity = _map(item.get("capacity")).items()
    return Device(
        driver,
        pool,
        str(item["name"]),
        str(item.get("nodeName") or node),
        {
            qualified(name, driver): known
            for name, value in attributes
            if (known := _attribute(_map(value))) is not None
        },
        {qualified(name, driver): _capacity(name, _map(value)) for name, value in capacity},
        item.get("allowMultipleAllocations") is True,
        tuple(_taint(_map(entry)) for entry in _list(item.get("taints"))),
        _counters(map(_map, _list(item.get("consumesCounters")))),
    )


def _attribute(value: Json) -> Attribute | None:
    """None for kinds of attributes that are not known here: no selector finds them."""
    for plain in (value.get("string"), value.get("bool")):
        if isinstance(plain, str | bool):
            return plain
    if "int" in value:
        return _int(value["int"], 0)
    return version(str(value["version"])) if "version" in value else None


def _capacity(name: str, item: Json) -> Capacity:
    policy = _map(item.get("requestPolicy"))
    limits = _map(policy.get("validRange"))
    texts = (item["value"], policy.get("default"), *(limits.get(k) for k in ("min", "max", "step")))
    try:
        return _same_capacity(
            tuple(None if text is None else str(text) for text in texts),
            tuple(str(value) for value in _list(policy.get("validValues"))),
        )
    except QuantityError as error:
        raise QuantityError(f"{name}: {error}") from None


@lru_cache(maxsize=1024)
def _same_capacity(texts: tuple[str | None, ...], values: tuple[str, ...]) -> Capacity:
    """One object for all capacities that are written alike, so that they can be told apart fast."""
    value, default, minimum, maximum, step = (
        None if text is None else exact_quantity(text) for text in texts
    )
    if value is None:
        raise QuantityError("a capacity has no value")
    allowed = tuple(sorted(map(exact_quantity, values)))
    return Capacity(value, default, allowed, minimum, maximum, step)


def _counters(entries: Iterable[Json]) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for entry in entries:
        for name, item in _map(entry.get("counters")).items():
            amount = _amount(name, _map(item)["value"])
            found[name] = max(amount, found.get(name, amount))
    return found


def _taint(item: Json) -> DeviceTaint:
    return DeviceTaint(*(str(item.get(key) or "") for key in ("key", "value", "effect")))


def _amount(name: str, value: object) -> Fraction:
    try:
        return exact_quantity(str(value))
    except QuantityError as error:
        raise QuantityError(f"{name}: {error}") from None


def _int(value: object, default: int) -> int:
    if value is None:
        return default
    if type(value) is not int:
        raise ValueError(f"{str(value)[:64]!r} is not a whole number")
    return value


def _map(value: object) -> Json:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{str(value)[:64]!r} stands where an object belongs")
    return dict(value)


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:64]!r} stands where a list belongs")
    return value
