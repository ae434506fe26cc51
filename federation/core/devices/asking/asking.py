"""What containers ask of cards: resource lists and annotations to `PodWants`, exact or refused.

Names, defaults and order are those of HAMi's admission webhook and request parsers: limits before
requests for every name; one card if only a share of one is given; and the compute of the whole
card with the whole memory, or where nothing but cards is asked for. A memory or percentage of 0 is
as if it were not given (HAMi then takes the whole memory and forgets the compute, defect d08).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from federation.core.devices.asking.amounts import memory_mib, whole
from federation.core.devices.asking.wishes import WishError, read_wishes
from federation.core.devices.wants import FULL, CardWants, ContainerWants, PodWants, Role
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Quantity, Vendor, Vendors
from federation.core.quantity import QuantityError

Texts = Mapping[str, str]
"""Resource name to quantity, as written."""


class WantsError(ValueError):
    """A request that cannot be met exactly. `container` is '' where it is about annotations."""

    def __init__(self, container: str, message: str) -> None:
        super().__init__(f"container {container}: {message}" if container else message)
        self.container = container


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """A container as written: its resource lists are texts by resource name."""

    name: str
    role: Role = Role.APP
    limits: Texts = field(default_factory=dict)
    requests: Texts = field(default_factory=dict)

    @property
    def texts(self) -> Texts:
        """Every name with its limit, else its request."""
        return {**self.requests, **self.limits}


def pod_wants(
    containers: Iterable[ContainerAsk],
    annotations: Mapping[str, str],
    vendors: Vendors = VENDORS,
) -> PodWants:
    """What a pod asks of cards; false if nothing. `containers` in the order of the pod spec, init
    containers first. Raises WantsError with the container and what to write instead.
    """
    wants = tuple(
        ContainerWants(ask.name, ask.role, tuple(_cards_of(ask, annotations, vendors)))
        for ask in containers
    )
    keys = {cards.vendor for container in wants for cards in container.cards}
    if not keys:
        return PodWants(wants)
    try:
        return PodWants(wants, read_wishes(annotations, [v for v in vendors if v.key in keys]))
    except WishError as error:
        raise WantsError("", str(error)) from None


def canonical_texts(ask: ContainerAsk, vendors: Vendors = VENDORS) -> dict[str, str]:
    """What a container asks of cards, under each vendor's own names and as plain numbers in its
    units; without amounts of memory of 0, which are as if not given, and without instances.
    Raises WantsError.
    """
    return {
        name: str(amount)
        for request in _requests(ask, {}, vendors)
        for name, amount in request.plain().items()
    }


def _cards_of(
    ask: ContainerAsk, annotations: Mapping[str, str], vendors: Vendors
) -> Iterator[CardWants]:
    for request in _requests(ask, annotations, vendors):
        wants = request.cards()
        if wants is not None:
            yield wants
        yield from request.instances()


def _requests(
    ask: ContainerAsk, annotations: Mapping[str, str], vendors: Vendors
) -> Iterator[_Request]:
    named: dict[str, dict[str, Quantity]] = {}
    for name in ask.texts:
        found = vendors.of_resource(name)
        if found:
            named.setdefault(found[0].key, {})[name] = found[1]
    for vendor in vendors:
        if vendor.key in named:
            yield _Request(ask, vendor, named[vendor.key], annotations)


@dataclass(frozen=True, slots=True)
class _Request:
    """What one container asks of one vendor; `names` are the resources that it names."""

    ask: ContainerAsk
    vendor: Vendor
    names: Mapping[str, Quantity]
    annotations: Mapping[str, str]

    def cards(self) -> CardWants | None:
        """Defaults and rules in the order in which HAMi applies them; None asks for nothing."""
        vendor = self.vendor
        memory, percent, cores = self._shares()
        cards = self._cards((memory, percent, cores) != (None, None, None))
        if not cards:
            return None
        if cores is None:
            alone = percent == FULL or not (memory or percent)
            full = alone and vendor.exclusive_by_default
            cores = vendor.card_cores if full else vendor.default_cores
        elif cores and vendor.cores_need and not self._soft:
            key, value = vendor.cores_need
            raise self._error(f"{vendor.cores} needs the annotation {key}: {value}")
        memory = memory or (0 if percent else vendor.default_memory)
        if vendor.totals:
            memory, cores = self._each(memory, cards, "memory"), self._each(cores, cards, "cores")
        memory = self._cut(memory, cards)
        share = 0 if memory else percent or FULL
        return CardWants(vendor.key, cards, memory, share, min(cores, vendor.card_cores))

    def plain(self) -> dict[str, int]:
        """By the vendor's own names, in its units; empty if it asks for no card by number."""
        vendor = self.vendor
        memory, percent, cores = self._shares()
        cards = self._cards((memory, percent, cores) != (None, None, None))
        if not cards:
            return {}
        asked = self._amount(Quantity.CARDS, whole)
        found = {} if asked is None else {vendor.count: asked}
        if memory:
            found[vendor.memory] = memory // vendor.mib_per_unit
        if percent:
            found[vendor.percent] = percent
        if cores is not None:
            found[vendor.cores] = cores
        return found or {vendor.count: cards}

    def _shares(self) -> tuple[int | None, int | None, int | None]:
        """Memory in MiB, percentage of memory, and compute, each None if it is not given."""
        unit = self.vendor.mib_per_unit
        return (
            self._amount(Quantity.MEMORY, lambda text: memory_mib(text, unit)),
            self._amount(Quantity.PERCENT, _percent),
            self._amount(Quantity.CORES, whole),
        )

    def instances(self) -> Iterator[CardWants]:
        """MIG instances that are asked for by the name of their profile."""
        for name, quantity in sorted(self.names.items()):
            if quantity is Quantity.INSTANCES:
                count = self._parse(name, whole)
                if count:
                    yield CardWants(self.vendor.key, count, profile=self.vendor.profile(name))

    def _cards(self, shared: bool) -> int:
        """How many cards; `shared` is whether a share of a card is asked for."""
        vendor = self.vendor
        asked = self._amount(Quantity.CARDS, whole)
        if asked is None:
            if shared and not vendor.default_cards:
                raise self._error(f"it asks for a share of no card: add {vendor.count}: 1")
            return vendor.default_cards if shared else 0
        cards = vendor.cards(asked)
        if cards is None:
            raise self._error(f"{vendor.count}: {asked} is odd, and cards are given in pairs")
        return cards

    def _each(self, total: int, cards: int, what: str) -> int:
        """The part of one card, where a container names the total of all its cards."""
        if total % cards:
            raise self._error(f"{total} of {what} cannot be divided evenly among {cards} cards")
        return total // cards

    def _cut(self, memory: int, cards: int) -> int:
        """Memory of one card in the sizes that there are; all of it stays 0."""
        vendor = self.vendor
        if not memory or not vendor.sizes or self._soft:
            return memory
        size = vendor.cut(memory)
        if size is None:
            sizes = ", ".join(map(str, vendor.sizes))
            raise self._error(f"{vendor.memory}: {memory} MiB is no size of a card: {sizes} are")
        if cards > 1 and vendor.whole_if_many and size != vendor.sizes[-1]:
            raise self._error(
                f"{vendor.memory}: several cards must be whole ones: leave it out, or ask for 1"
            )
        return size

    @property
    def _soft(self) -> bool:
        """Whether the pod chose the split in which memory is not cut."""
        need = self.vendor.cores_need
        return need is not None and self.annotations.get(need[0]) == need[1]

    def _amount(self, quantity: Quantity, parse: Callable[[str], int]) -> int | None:
        """What is given under any name of a quantity; None if under none."""
        found = {n: self._parse(n, parse) for n, q in sorted(self.names.items()) if q is quantity}
        if len(set(found.values())) > 1:
            (one, a), (other, b) = next(
                (x, y) for x in found.items() for y in found.items() if x[1] != y[1]
            )
            raise self._error(
                f"{one} ({a}) and {other} ({b}) mean the same and differ: keep one of them"
            )
        return next(iter(found.values()), None)

    def _parse(self, name: str, parse: Callable[[str], int]) -> int:
        try:
            return parse(self.ask.texts[name])
        except ValueError as error:
            raise self._error(f"{name}: {error}") from None

    def _error(self, message: str) -> WantsError:
        return WantsError(self.ask.name, message)


def _percent(text: str) -> int:
    try:
        return whole(text, FULL)
    except QuantityError as error:
        raise QuantityError(f"{error}; write a percentage from 1 to 100") from None
