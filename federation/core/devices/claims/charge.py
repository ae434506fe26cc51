"""What a claim asks quota for: devices by number, or what it takes of their capacity or counters.

Rules are Kueue's for `deviceClassMappings` with sources. Beyond them: one class may be counted by
several mappings that count different things (cards, memory and compute at once), and a device that
cannot be shared is charged all of its capacity, as it is given away whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from federation.core.devices.claims.claims import (
    Alternatives,
    Capacity,
    ClaimError,
    ClaimSpec,
    Device,
    DeviceClassMapping,
    DeviceRequest,
    DeviceRules,
    Mode,
    Source,
    SourceKind,
    qualified,
)
from federation.core.devices.claims.inventory import Inventory, compiled

Amounts = dict[str, Fraction]
"""Quota resource to amount."""


def charge(claim: ClaimSpec, inventory: Inventory, rules: DeviceRules) -> Amounts:
    """What one claim asks quota for, unrounded. Raises ClaimError."""
    total: Amounts = {}
    for index, (name, request) in enumerate(claim.requests):
        try:
            found = _of_request(request, inventory, rules)
        except ClaimError as error:
            where = f"devices.requests[{index}]" + (f" ({name})" if name else "")
            raise ClaimError(f"{where}: {error}") from None
        for resource, amount in found.items():
            total[resource] = total.get(resource, Fraction(0)) + amount
    return total


def _of_request(
    request: DeviceRequest | Alternatives, inventory: Inventory, rules: DeviceRules
) -> Amounts:
    if isinstance(request, Alternatives):
        return _of_alternatives(request, rules)
    if request.admin_access:  # looks at devices that others have: the API server guards it
        return {}
    if request.mode == Mode.ALL:
        raise ClaimError(
            "AllocationMode 'All' is not supported: how many devices that will be is not known"
            " before the pod is placed; ask for a count"
        )
    if request.mode != Mode.EXACT_COUNT:
        raise ClaimError(f"unsupported allocation mode: {request.mode}")
    if request.count < 1:
        raise ClaimError(f"count is {request.count}: it must be at least 1")
    if any(amount < 0 for _, amount in request.capacity):
        raise ClaimError("an amount under capacity.requests is negative")
    compiled(request.selectors)
    total: Amounts = {}
    for mapping in _mappings(request.device_class, rules):
        total[mapping.resource] = inventory.once(
            (mapping, request), partial(_of_mapping, mapping, request, inventory)
        )
    return total


def _mappings(device_class: str, rules: DeviceRules) -> tuple[DeviceClassMapping, ...]:
    found = rules.of_class(device_class)
    if not found:
        raise ClaimError(
            f"DeviceClass {device_class} is not mapped in DRA configuration: name it in"
            " resources.deviceClassMappings"
        )
    return found


def _of_alternatives(request: Alternatives, rules: DeviceRules) -> Amounts:
    """The largest count, which bounds whichever is taken: all must ask for the same resource."""
    if not rules.alternatives:
        raise ClaimError(
            "FirstAvailable device selection is not supported: name one class under exactly, or"
            " turn on the feature gate KueueDRAIntegrationPrioritizedList"
        )
    counts: list[int] = []
    resources: dict[str, str] = {}
    for part in request.requests:
        mappings = _mappings(part.device_class, rules)
        if any(mapping.sources for mapping in mappings):
            raise ClaimError(
                f"DeviceClass {part.device_class} is counted by capacity or counters, which is not"
                " supported for firstAvailable"
            )
        if part.mode != Mode.EXACT_COUNT or part.count < 1:
            raise ClaimError("an alternative of firstAvailable has to ask for a count from 1")
        compiled(part.selectors)
        counts.append(part.count)
        resources |= {mapping.resource: part.device_class for mapping in mappings}
    if len(resources) != 1:
        raise ClaimError(f"alternatives ask for different resources: {', '.join(resources)}")
    return {next(iter(resources)): Fraction(max(counts))}


def _of_mapping(
    mapping: DeviceClassMapping, request: DeviceRequest, inventory: Inventory
) -> Fraction:
    if not mapping.sources:
        if request.selectors and not inventory.elsewhere:
            selectors = (*_class_selectors(request, inventory), *request.selectors)
            _enough(inventory.matching("", selectors), request, "CEL selector")
        return Fraction(request.count)
    return sum((_of_source(source, request, inventory) for source in mapping.sources), Fraction(0))


def _class_selectors(request: DeviceRequest, inventory: Inventory) -> tuple[str, ...]:
    found = inventory.classes.get(request.device_class)
    if found is None:
        raise ClaimError(f"DeviceClass {request.device_class} does not exist: create it")
    return found.selectors


def _enough(devices: Sequence[Device], request: DeviceRequest, what: str) -> None:
    if len(devices) < request.count:
        raise ClaimError(
            f"insufficient matching devices for {what} in DeviceClass {request.device_class}:"
            f" {len(devices)} device(s) match in the cluster but {request.count} requested"
        )


def _of_source(source: Source, request: DeviceRequest, inventory: Inventory) -> Fraction:
    """The most that one matching device may cost, as nobody knows which it will be."""
    asked = request.asked(qualified(source.name, source.driver), source.driver)
    if inventory.elsewhere and not inventory.of_driver(source.driver):
        if asked is None:
            raise ClaimError(
                f"driver {source.driver} publishes no devices here, so what a request costs is"
                f" not known: ask for {source.name} under capacity.requests"
            )
        return asked * request.count
    selectors = (*_class_selectors(request, inventory), *request.selectors)
    if source.selector:
        selectors = (source.selector, *selectors)
    devices = inventory.matching(source.driver, selectors)
    _enough(devices, request, f"{source.kind} driver {source.driver}")
    if source.kind is SourceKind.COUNTER:
        costs = [device.counters[source.name] for device in devices if _counts(device, source)]
        if not costs:
            raise ClaimError(
                f"matched devices have no consumesCounters entry for counter {source.name!r}"
            )
    else:
        costs = _capacity_costs(source, devices, asked)
    return max(*costs, Fraction(0)) * request.count


def _counts(device: Device, source: Source) -> bool:
    return source.name in device.counters


def _capacity_costs(
    source: Source, devices: Sequence[Device], asked: Fraction | None
) -> list[Fraction]:
    name = qualified(source.name, source.driver)
    having = [device for device in devices if name in device.capacity]
    if not having:
        raise ClaimError(f"matched devices have no capacity dimension {source.name!r}")
    kinds = {(id(device.capacity[name]), device.shared): device for device in having}
    costs = [_cost(d.capacity[name], asked, shared=d.shared) for d in kinds.values()]
    known = [cost for cost in costs if cost is not None]
    if not known:
        raise ClaimError(
            f"capacity request cannot be satisfied by any matched device's RequestPolicy for"
            f" dimension {source.name!r}: ask for less"
        )
    return known


def _cost(capacity: Capacity, asked: Fraction | None, *, shared: bool) -> Fraction | None:
    """What a device that may be shared charges for a request; None if it cannot serve it."""
    found = rounded(capacity, asked)
    if found is None or found > capacity.value:
        return None
    return found if shared else capacity.value


def rounded(capacity: Capacity, asked: Fraction | None) -> Fraction | None:
    """A request after the policy of the capacity: its default, then up to what may be had.

    None if that is more than the policy allows.
    """
    if asked is not None:
        base = asked
    else:
        base = capacity.value if capacity.default is None else capacity.default
    if capacity.values:
        return min((value for value in capacity.values if value >= base), default=None)
    if (capacity.minimum, capacity.maximum) == (None, None):
        return base
    whole = Fraction(-(-base.numerator // base.denominator))
    if capacity.minimum is not None:
        whole = max(whole, capacity.minimum)
        if capacity.step is not None and capacity.step > 0:
            steps = (whole - capacity.minimum) / capacity.step
            whole = capacity.minimum + -(-steps.numerator // steps.denominator) * capacity.step
    return whole if capacity.maximum is None or whole <= capacity.maximum else None
