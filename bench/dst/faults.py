"""Faults: drawn from the seed, each with a beginning and an end."""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.dst.cards import Inventory
from bench.dst.cluster import Cluster
from bench.dst.kubelets import COLLECTED_S
from bench.dst.programs import ELECTION, Program
from bench.dst.world import World
from federation.api.lease import over_below
from federation.api.names import FEDQ_NAMESPACE, Order
from federation.api.orders import GRACEFUL, NOW
from federation.core.failover import Tier
from federation.edge.resources import LEASES, MULTIKUEUE_CLUSTERS
from tests.fakes.links import Link

LONGEST_S = 240.0
BRIEF_S = 4.0


class Faults:
    """Plans faults within a span of time; after it none is left. What goes wrong is written to the
    log of the world.

    Tier A holds while the agent lives and reaches its API server: without a guard on the nodes,
    both are away for seconds only, which K allows for.
    """

    def __init__(self, world: World, rng: random.Random, until: float) -> None:
        self.world, self.rng, self.until = world, rng, until
        self.over_at = 0.0
        """When the last of them ends that is known of."""
        self.kinds: list[tuple[int, Callable[[float, float], str]]] = [
            (6, self.crash_manager),
            (3, self.crash_agent),
            (4, self.cut_manager),
            (4, self.cut_lease),
            (6, self.isolate),
            (3, self.unwell),
            (3, self.lossy),
            (3, self.lag),
            (3, self.freeze),
            (1, self.slow),
            (2, self.drop_watches),
            (2, self.redis),
            (1, self.jump),
            (2, self.home_away),
            (1, self.expired),
            (1, self.order),
            (1, self.leave),
            (2, self.perish),
            (2, self.full_disk),
        ]
        if world.shape.racks is not None:
            self.kinds += [(4, self.ill_card), (3, self.lost_node), (3, self.silent_node)]

    def plan(self, count: int) -> None:
        """Draw so many faults."""
        weights = [weight for weight, _ in self.kinds]
        for _ in range(count):
            ((_, kind),) = self.rng.choices(self.kinds, weights)
            start = self.rng.uniform(5, self.until - 10)
            longest = min(LONGEST_S, self.until - start)
            lasts = min(
                longest, self.rng.choice((self.rng.uniform(1, 30), self.rng.uniform(20, 240)))
            )
            self.at(start, kind, lasts)

    def plan_loss(self) -> None:
        """One cluster is lost while much of what was submitted runs, or seems to be."""
        kinds = (self.isolate, self.isolate, self.cut_lease, self.cut_manager)
        start, lasts = self.rng.uniform(20, 220), self.rng.uniform(60, LONGEST_S)
        self.at(start, self.rng.choice(kinds), lasts)

    def plan_cards(self) -> None:
        """A node or a card fails, where there are any."""
        if self.world.shape.racks is not None:
            kind = self.rng.choice((self.ill_card, self.lost_node, self.silent_node))
            self.at(self.rng.uniform(20, 240), kind, self.rng.uniform(10, 120))

    def at(self, start: float, kind: Callable[[float, float], str], lasts: float) -> None:
        """Have something go wrong."""
        self.over_at = max(self.over_at, start + lasts)
        self.world.loop.later(start, self._begin, kind, lasts)

    def _begin(self, kind: Callable[[float, float], str], lasts: float) -> None:
        text = kind(self.world.loop.now, lasts)
        self.world.note("FAULT", f"{text} for {lasts:.1f} s")

    def _after(self, lasts: float, end: Callable[[], None], what: str) -> None:
        def over() -> None:
            self.world.note("FAULT", f"over: {what}")
            end()

        self.over_at = max(self.over_at, self.world.loop.now + lasts)
        self.world.loop.later(lasts, over)

    def _cluster(self) -> str:
        return self.rng.choice(self.world.names)

    # Programs

    def crash_manager(self, now: float, lasts: float) -> str:
        """Killed after some more writes, maybe several times."""
        return self._crash(self.rng.choice(self.world.managers), min(lasts, 60))

    def crash_agent(self, now: float, lasts: float) -> str:
        """The same of an agent."""
        lasts = lasts if self.guarded else min(lasts, BRIEF_S)
        return self._crash(self.world.agents[self._cluster()], lasts)

    @property
    def guarded(self) -> bool:
        """Whether copies end at their deadline whoever is away."""
        return self.world.tier is Tier.GUARD

    def _brief(self, name: str, lasts: float) -> float:
        return lasts if self.guarded or "local" not in name else min(lasts, BRIEF_S)

    def _crash(self, program: Program, lasts: float) -> str:
        program.down_s = self.rng.uniform(0.5, max(1.0, lasts))
        program.dies_in = self.rng.randint(0, 12)
        return f"{program.host.name} dies after {program.dies_in} more writes"

    def full_disk(self, now: float, lasts: float) -> str:
        """An agent cannot note its lease: the guard goes by the one that is noted."""
        name = self._cluster()
        note = self.world.agents[name].note
        note.full = True

        def end() -> None:
            note.full = False

        self._after(lasts, end, f"disk of {name}")
        return f"disk of {name} is full"

    def jump(self, now: float, lasts: float) -> str:
        """Somebody sets a wall clock, and sets it right again."""
        host = self.rng.choice(self.world.programs).host
        host.wall = self.rng.choice((-600.0, 600.0, -30.0, 30.0))

        def end() -> None:
            host.wall = 0.0

        self._after(lasts, end, f"clock of {host.name}")
        return f"wall clock of {host.name} jumps by {host.wall:.0f} s"

    # The network

    def _cut(self, links: list[Link], lasts: float, what: str) -> str:
        both = self.rng.random() < 0.6
        to_server, to_client = (False, False) if both else (self.rng.random() < 0.5, False)
        for link in links:
            link.set_open(to_server, to_client)
            link.late_rate = 0.3

        def end() -> None:
            for link in links:
                link.set_open(True, True)
                link.late_rate = 0.0

        self._after(lasts, end, what)
        return f"{what} cut {'both ways' if not to_server else 'on the way back'}"

    def cut_manager(self, now: float, lasts: float) -> str:
        """The manager does not reach a cluster; its agent reaches the management cluster."""
        name = self._cluster()
        return self._cut(self.world.links_of_managers(name), lasts, f"manager-{name}")

    def cut_lease(self, now: float, lasts: float) -> str:
        """An agent does not reach the management cluster; the manager reaches its cluster."""
        name = self._cluster()
        return self._cut([self.world.agents[name].links["lease"]], lasts, f"lease-{name}")

    def isolate(self, now: float, lasts: float) -> str:
        """A cluster is cut off altogether."""
        name = self._cluster()
        links = [*self.world.links_of_managers(name), self.world.agents[name].links["lease"]]
        return self._cut(links, lasts, f"cluster {name}")

    def home_away(self, now: float, lasts: float) -> str:
        """The management API server does not answer anybody."""
        links = self.world.links_of_managers("", ELECTION)
        links += [agent.links["lease"] for agent in self.world.agents.values()]
        return self._cut(links, lasts, "management cluster")

    def _some_link(self) -> tuple[str, Link]:
        program = self.rng.choice([self.world.managers[0], *self.world.programs])
        name = self.rng.choice(sorted(program.links))
        return f"{program.host.name} to {name or 'home'}", program.links[name]

    def unwell(self, now: float, lasts: float) -> str:
        """A server answers some requests with errors."""
        name, link = self._some_link()
        link.refuse, link.refuse_rate = (429, 500, 503, 504), self.rng.choice((0.1, 0.5, 1.0))
        lasts = self._brief(name, lasts)

        def end() -> None:
            link.refuse_rate = 0.0

        self._after(lasts, end, name)
        return f"{name}: errors"

    def lossy(self, now: float, lasts: float) -> str:
        """Writes are carried out and the answers lost."""
        name, link = self._some_link()
        link.lose_rate = self.rng.choice((0.1, 0.3))

        def end() -> None:
            link.lose_rate = 0.0

        self._after(self._brief(name, lasts), end, name)
        return f"{name}: answers are lost"

    def lag(self, now: float, lasts: float) -> str:
        """Watches are behind."""
        name, link = self._some_link()
        link.watch_lag = self.rng.choice((1.0, 5.0, 60.0))
        if "local" in name and not self.guarded:
            link.watch_lag = 1.0

        def end() -> None:
            link.watch_lag = 0.0

        self._after(lasts, end, name)
        return f"{name}: watches are up to {link.watch_lag:.0f} s behind"

    def freeze(self, now: float, lasts: float) -> str:
        """Open watches say nothing; requests and new watches pass."""
        name, link = self._some_link()
        link.freeze(True)

        def end() -> None:
            link.freeze(False)

        self._after(self._brief(name, lasts), end, name)
        return f"{name}: watches are frozen"

    def slow(self, now: float, lasts: float) -> str:
        """Every request takes seconds."""
        name, link = self._some_link()
        link.latency = (0.1, 3.0) if self.guarded or "local" not in name else (0.05, 0.3)

        def end() -> None:
            link.latency = (0.0005, 0.004)

        self._after(min(lasts, 60), end, name)
        return f"{name}: slow"

    def drop_watches(self, now: float, lasts: float) -> str:
        """A server breaks all watches, and has forgotten its history maybe."""
        name = self.rng.choice(["", *self.world.names])
        fake = self.world.clusters[name].fake if name else self.world.home
        if self.rng.random() < 0.5:
            fake.compact()
        fake.drop_watches()
        return f"watches of {name or 'home'} are dropped"

    # Clusters

    def expired(self, now: float, lasts: float) -> str:
        """The manager's credentials for a cluster are not valid any more."""
        name = self._cluster()
        links = self.world.links_of_managers(name)
        for link in links:
            link.refuse, link.refuse_rate = (401, 403), 1.0

        def end() -> None:
            for link in links:
                link.refuse_rate = 0.0

        self._after(lasts, end, f"credentials for {name}")
        return f"credentials for {name} expired"

    def order(self, now: float, lasts: float) -> str:
        """An operator keeps new work from a cluster, or moves away what runs there."""
        name = self._cluster()
        key, value = self.rng.choice(
            ((Order.CORDON, "repairs"), (Order.DRAIN, GRACEFUL), (Order.DRAIN, NOW))
        )
        self._annotate(name, key, value)
        self._after(lasts, lambda: self._annotate(name, key, None), f"{key} of {name}")
        return f"{name} gets {key}={value}"

    def _annotate(self, name: str, key: Order, value: str | None) -> None:
        home = self.world.home
        if any(obj["metadata"]["name"] == name for obj in home.items(MULTIKUEUE_CLUSTERS)):
            body = {"metadata": {"annotations": {key.value: value}}}
            home.merge(MULTIKUEUE_CLUSTERS, name, body)

    def leave(self, now: float, lasts: float) -> str:
        """Somebody deletes a MultiKueueCluster, and makes it again."""
        name, home = self._cluster(), self.world.home
        if not any(obj["metadata"]["name"] == name for obj in home.items(MULTIKUEUE_CLUSTERS)):
            return f"{name} has left already"
        home.delete(MULTIKUEUE_CLUSTERS, name)
        self._after(lasts, lambda: self.world.join(name), f"{name} is away")
        return f"{name} leaves"

    def perish(self, now: float, lasts: float) -> str:
        """A cluster burns down; a new one takes its place. Somebody confirms that it is dead, once
        that can be said: `fedq cluster fence confirm`.
        """
        name = self._cluster()
        agent = self.world.agents[name]
        links = [*self.world.links_of_managers(name), agent.links["lease"]]
        if agent.task is None or not all(link.to_server for link in links):
            return f"{name} is in trouble already"
        self._cut(links, lasts, f"{name} is gone")
        agent.kill(lasts)
        agent.note.text = None
        self.world.clusters[name].perish()
        self.world.loop.later(self.rng.uniform(1, 120), self._confirm, name)
        return f"{name} burns down"

    def _confirm(self, name: str) -> None:
        key = (FEDQ_NAMESPACE, name)
        lease = self.world.home.objects.data.get(LEASES, {}).get(key)
        epoch = over_below(lease) if lease is not None else 0
        if not epoch:
            self.world.loop.later(5, self._confirm, name)
            return
        self._annotate(name, Order.FENCE_CONFIRMED, str(epoch))
        self.world.records.reached["confirmed"] += 1
        self.world.note("people", f"{name} is confirmed dead below epoch {epoch}")
        self.world.loop.later(20, self._confirm_again, name)

    def _confirm_again(self, name: str) -> None:
        """An order that was not followed is gone: they read why, and give it as it is right now."""
        objects = self.world.home.items(MULTIKUEUE_CLUSTERS)
        notes = [
            obj["metadata"].get("annotations") or {}
            for obj in objects
            if obj["metadata"]["name"] == name
        ]
        if not any(Order.FENCE_CONFIRMED.value in found for found in notes):
            self._confirm(name)

    # Nodes and cards

    def _node(self) -> tuple[Cluster, Inventory, str]:
        cluster = self.world.clusters[self._cluster()]
        assert cluster.inventory is not None
        return cluster, cluster.inventory, self.rng.choice(sorted(cluster.inventory.nodes))

    def ill_card(self, now: float, lasts: float) -> str:
        """A card is not healthy for a while; what runs there goes on."""
        _, inventory, node = self._node()
        index = self.rng.randrange(inventory.nodes[node].cards)
        inventory.sicken(node, index, True)
        self._after(lasts, lambda: inventory.sicken(node, index, False), f"card of {node} is ill")
        return f"card {index} of {node} is not healthy"

    def lost_node(self, now: float, lasts: float) -> str:
        """A node is gone, and another one of its name joins later."""
        cluster, inventory, node = self._node()
        if node in inventory.away:
            return f"{node} is away already"
        cluster.lose_node(node)
        self._after(max(lasts, COLLECTED_S[1] + 1), lambda: inventory.add(node), f"{node} is gone")
        return f"{node} is gone"

    def silent_node(self, now: float, lasts: float) -> str:
        """Nothing is heard of a node, nor does it hear anything; its containers run on. Without a
        guard there nobody could stop them.
        """
        _, inventory, node = self._node()
        if node in inventory.away:
            return f"{node} is away already"
        lasts = lasts if self.guarded else min(lasts, BRIEF_S)
        inventory.silence(node, True)
        self._after(lasts, lambda: inventory.silence(node, False), f"{node} is silent")
        return f"{node} is silent for {lasts:.1f} s"

    # Redis

    def redis(self, now: float, lasts: float) -> str:
        """Redis is wiped, rolled back, away or slow."""
        index = self.world.index
        kind = self.rng.choice(("lose", "roll back", "down", "slow"))
        if kind == "lose":
            index.lose()
        elif kind == "roll back":
            index.replicate()
            self.world.loop.later(min(lasts, 10), index.roll_back)
        elif kind == "down":
            index.down = True
            self._after(lasts, lambda: setattr(index, "down", False), "redis down")
        else:
            index.slow = 1.0
            self._after(lasts, lambda: setattr(index, "slow", 0.003), "redis slow")
        return f"redis: {kind}"
