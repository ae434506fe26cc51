"""Why a job that waits finds no cards, on its cluster or on any worker cluster, and who would have
to leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from federation.api.convert import to_cluster_queue, to_flavor, to_local_queue
from federation.core.cluster_cards import demand, shape_of
from federation.core.devices.asking.asking import WantsError
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.moves import Holder, Moves, smallest_moves
from federation.core.devices.fleet.no_room import LOOKED_AT, no_room
from federation.core.devices.fleet.strategies.named import DEFAULT, strategy
from federation.core.devices.fleet.types import Gang, NoPlace, Room
from federation.core.devices.quota.quota import standard
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.quantity import QuantityError
from federation.core.types import PodSet, ResourceFlavor
from federation.edge.errors import ApiError, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from fedq import members
from fedq.cardbook import CardBook, read_cards
from fedq.connect import Cluster
from fedq.gpubars import safe
from fedq.members import Member
from fedq.refs import Found

MEMBERS = 16
"""Worker clusters that are read for one answer."""
_QUOTAS = standard(VENDORS)


class Answer(NamedTuple):
    """What is the case, and what would change it ('' if it fits by now). `leave` is how many would
    have to leave: what needs the fewest comes first.
    """

    leave: int
    said: str
    advice: str

    @property
    def text(self) -> str:
        """Both sentences."""
        return f"{self.said} {self.advice}".rstrip()


def why_no_cards(
    book: CardBook, pod_sets: Iterable[PodSet], flavors: Iterable[ResourceFlavor] = ()
) -> Answer | None:
    """None if none of the pods asks for cards that are counted here. Of several `flavors` that it
    may have, that counts for which the fewest would have to leave.
    """
    asking = [pods for pods in pod_sets if pods.cards]
    fleet, rooms = _fleet(book)
    if not asking or not rooms:
        return None
    return min(
        (
            _of(
                book,
                fleet,
                rooms,
                [(shape_of(p, demand(p.requests), one), p.count) for p in asking],
            )
            for one in [[flavor] for flavor in flavors] or [[]]
        ),
        key=lambda answer: answer.leave,
    )


async def here(client: KubeClient, job: Found, queue: str) -> str:
    """Of a job that waits on this worker cluster; '' if there is nothing to say."""
    pod_sets = _pod_sets(job)
    if not any(pods.cards for pods in pod_sets):
        return ""
    answer = await _asked(client, job.body["metadata"]["namespace"], queue, pod_sets)
    if answer is None:
        return ""
    return answer.advice or answer.said  # the agent has said how things are


async def elsewhere(cluster: Cluster, job: Found, queue: str) -> str:
    """Of a job that no worker cluster takes: of that where the fewest would have to leave."""
    pod_sets = _pod_sets(job)
    if not any(pods.cards for pods in pod_sets):
        return ""

    async def ask(member: Member) -> Answer | None:
        try:
            async with member.client() as client:
                return await _asked(client, job.body["metadata"]["namespace"], queue, pod_sets)
        except ApiError:
            return None  # the manager's message says what is wrong with it

    found = (await members.of(cluster))[:MEMBERS]
    answers = zip(found, await asyncio.gather(*map(ask, found)), strict=True)
    known = [(answer, member.name) for member, answer in answers if answer is not None]
    if not known:
        return ""
    answer, name = min(known)
    return f"On cluster {safe(name)}: {answer.text}"


async def _asked(
    client: KubeClient, namespace: str, queue: str, pod_sets: Iterable[PodSet]
) -> Answer | None:
    book, flavors = await asyncio.gather(read_cards(client), _flavors(client, namespace, queue))
    return why_no_cards(book, pod_sets, flavors)


async def _flavors(client: KubeClient, namespace: str, queue: str) -> list[ResourceFlavor]:
    """Those with which the queue gives cards."""
    try:
        door = to_local_queue(await client.get(LOCAL_QUEUES, queue, namespace))
        found = to_cluster_queue(await client.get(CLUSTER_QUEUES, door.cluster_queue))
        flavors = [to_flavor(obj) for obj in (await client.list(RESOURCE_FLAVORS)).items]
    except (NotFound, ValueError):
        return []
    names = {
        flavor.flavor
        for group in found.groups
        if any(_QUOTAS.counts(resource) for resource in group.covered)
        for flavor in group.flavors
    }
    return [flavor for flavor in flavors if flavor.name in names]


def _pod_sets(job: Found) -> tuple[PodSet, ...]:
    try:
        return tuple(job.kind.pod_sets(job.body))
    except (QuantityError, WantsError):
        return ()


def _fleet(book: CardBook) -> tuple[Fleet, dict[str, Room]]:
    fleet, rooms = Fleet(strategy(DEFAULT, Mix())), {}
    for name in book.ledger.hosts():
        use, room = book.ledger.use(name), book.rooms.room(name)
        if use is not None and room is not None:
            fleet.put(name, use, room)
            rooms[name] = room
    return fleet, rooms


def _of(book: CardBook, fleet: Fleet, rooms: dict[str, Room], gang: Gang) -> Answer:
    pods = sum(count for _, count in gang)
    answer = fleet.place_gang(gang)
    if not isinstance(answer, NoPlace):
        return Answer(0, f"By now there are cards for {_pods(pods)}.", "")
    said = no_room(answer, pods, fleet.freest(answer.shape, LOOKED_AT))
    moves = smallest_moves(fleet, rooms, gang, _holders(book))
    worth = len(moves.leave) or moves.most + 1 + moves.hopeless
    return Answer(worth, safe(f"{said[0].upper()}{said[1:]}."), safe(_advice(book, moves)))


def _holders(book: CardBook) -> Iterator[Holder]:
    for holding in book.ledger.holdings():
        yield Holder(holding, book.rooms.requests(holding.owner))


def _pods(count: int) -> str:
    return f"all its {count} pods" if count > 1 else "its pod"


def _advice(book: CardBook, moves: Moves) -> str:
    if moves.hopeless:
        return (
            "It would not fit even if all that hold cards here left: ask for less, or for fewer"
            " pods, or add nodes."
        )
    if moves.leave:
        names = []
        for holding in moves.leave:
            kind, (namespace, name), _ = book.owner(holding)
            cards = {grant.uuid: None for grants in holding.allocation for grant in grants}
            memory = sum(amount.memory_mib for amount in holding.charge().values())
            names.append(
                f"{kind.lower()} {namespace}/{name} ({memory:,} MiB on {holding.host}/"
                f"{', '.join(cards)})"
            )
        return f"It would fit if {' and '.join(names)} left: no smaller set does."
    if moves.all_tried:
        return f"None of up to {moves.most} moves helps: more would have to leave than that."
    return (
        f"None of the {moves.tried:,} smallest sets of up to {moves.most} that were tried helps,"
        " and there are more."
    )
