"""All drills, in the order in which `--all` runs them."""

from __future__ import annotations

from fedq.drill.cases import (
    agent_faults,
    clock_jumps,
    half_lost,
    management_down,
    managers,
    node_off,
    odd_links,
    peer_faults,
    ray_lost,
    redis_lost,
    simulated,
    worker_cut,
)
from fedq.drill.drill import Drill, Need, longest

CUT = frozenset({Need.CUT})

DRILLS: tuple[Drill, ...] = (
    Drill(
        "worker-partition",
        "1",
        "A worker is cut off both ways: its jobs stop there, then run again elsewhere, never twice",
        worker_cut.worker_partition,
        CUT,
    ),
    Drill(
        "keep",
        "2",
        "The same with policy keep: nothing stops, nothing runs again, all is taken up again",
        worker_cut.keep,
        CUT,
    ),
    Drill(
        "short-cut",
        "3",
        "A cut that is shorter than the lease changes nothing",
        worker_cut.short_cut,
        CUT,
        lasts=lambda timings: 90.0,
    ),
    Drill(
        "one-way-cut",
        "4",
        "Renewals arrive and the answers are lost: the worker stops, the manager waits longer",
        worker_cut.one_way_cut,
        CUT,
    ),
    Drill(
        "flapping",
        "5",
        "A link is 15 s off and 15 s on, again and again: no storm of attempts",
        odd_links.flapping,
        CUT,
    ),
    Drill(
        "agent-killed",
        "6",
        "An agent is killed and comes back within its lease: nothing changes",
        agent_faults.agent_killed,
        lasts=lambda timings: 90.0,
    ),
    Drill(
        "agent-down",
        "7",
        "An agent stays away while its pods live: the node guard ends them before they run again",
        agent_faults.agent_down,
        tier="B",
    ),
    Drill(
        "api-server-down",
        "8",
        "The API server of a worker that is cut off is down too: the node guard ends its pods",
        agent_faults.api_server_down,
        CUT,
        tier="B",
    ),
    Drill(
        "node-off",
        "9",
        "Nodes lose power: pods are retried there, a job tied to one moves, cards are free once",
        node_off.power_off,
        lasts=lambda timings: 120.0,
    ),
    Drill(
        "machine-paused",
        "10",
        "Everything on a worker stands still and goes on later: what was given up ends at once",
        agent_faults.machine_paused,
        tier="B",
    ),
    Drill(
        "clock-jump",
        "11",
        "Clocks jump by ten minutes each way, on a worker and on the manager: no effect at all",
        clock_jumps.clock_jump,
        frozenset({Need.FAKETIME}),
        lasts=lambda timings: 300.0,
    ),
    Drill(
        "clock-rate",
        "12",
        "Clocks run at different speeds: in the simulation",
        simulated.clock_rate,
        lasts=lambda timings: 120.0,
    ),
    Drill(
        "leader-killed",
        "13",
        "The leading manager is killed at each step of a dispatch: another leads, all runs once",
        managers.leader_killed,
        lasts=lambda timings: 240.0,
    ),
    Drill(
        "leader-stands-still",
        "14",
        "The leading manager stands still and wakes beside another leader: all runs once",
        managers.leader_stands_still,
        lasts=lambda timings: 120.0,
    ),
    Drill(
        "redis-killed",
        "15",
        "Redis is killed and comes back empty: what waited is dispatched in its order, once",
        redis_lost.killed,
        lasts=lambda timings: 120.0,
    ),
    Drill(
        "redis-flushed",
        "16",
        "FLUSHALL while jobs wait and while they are dispatched: order kept, nothing twice",
        redis_lost.flushed,
        lasts=lambda timings: 120.0,
    ),
    Drill(
        "redis-refuses",
        "17",
        "Redis is full, then read-only: submitting works, dispatch waits and goes on afterwards",
        redis_lost.refuses,
        lasts=lambda timings: 150.0,
    ),
    Drill(
        "ray-killed",
        "18",
        "An actor's process, the raylet and the GCS server die: dispatch resumes within 2 minutes",
        ray_lost.parts_killed,
        frozenset({Need.RAY}),
        lasts=lambda timings: 420.0,
    ),
    Drill(
        "management-down",
        "19",
        "The management API server stands still for less than the lease: nothing changes",
        management_down.short,
        profile="default",
        lasts=lambda timings: 180.0,
    ),
    Drill(
        "management-down-long",
        "19b",
        "The same beyond the lease: all stop, none runs elsewhere, all go on with the same attempt",
        management_down.beyond_lease,
        lasts=lambda timings: timings.rerun + 240.0,
    ),
    Drill(
        "half-lost",
        "20",
        "Two of four clusters are lost with 1,000 jobs: all run again elsewhere, within the quotas",
        half_lost.half_lost,
        CUT,
        workers=4,
        lasts=lambda timings: longest(timings) + 360.0,
    ),
    Drill(
        "duplicate-ok",
        "",
        "A worker is cut off; what may run twice runs elsewhere at once, and one result counts",
        odd_links.duplicate_ok,
        CUT,
    ),
    Drill(
        "expired-kubeconfig",
        "",
        "The manager's token for a worker is refused: shown as such, and nothing moves",
        odd_links.expired_kubeconfig,
    ),
    Drill(
        "stale-watch",
        "",
        "The manager's watches hang while requests work: nothing is given up or waits for ever",
        odd_links.stale_watch,
        frozenset({Need.PROXIES}),
    ),
    Drill(
        "two-agents",
        "",
        "A second agent runs for the same cluster: every job is started once",
        odd_links.two_agents,
        lasts=lambda timings: 110.0,
    ),
    Drill(
        "peer-faults",
        "",
        "The faults under which MultiKueue was measured, one after the other",
        peer_faults.peer_faults,
        CUT,
        extra=True,
        lasts=lambda timings: 900.0,
    ),
)


def find(name: str) -> Drill | None:
    """The drill of that name or number."""
    return next((drill for drill in DRILLS if name in (drill.name, drill.number)), None)
