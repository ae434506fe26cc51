"""Replays one admission scenario through the scheduler of the core, in simulated time.

The scenarios and what is compared are described where they are kept. The simulation has what a
cluster without nodes has: a suspended Job is stopped at once, so an eviction ends as soon as it
has begun; scheduling cycles go on in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from bench.conformance.outcome import Outcome
from federation.api import convert
from federation.api.names import Label
from federation.core.cycle import Decision, Fit, Preempt, Wait
from federation.core.policies import FairStrategy, Rules
from federation.core.queueing import MemoryIndex
from federation.core.reasons import Reason
from federation.core.scheduler import REACTIVATION_S, Scheduler
from federation.core.types import Admission, ClusterQueue, Cohort, Pending, ResourceFlavor
from federation.core.world import World
from federation.jobs import batch_job

Json = dict[str, Any]

CYCLE_S = 0.01
"""Simulated length of a scheduling cycle."""
MOST_STEPS = 5000
"""Cycles and evictions after which a phase is taken not to come to rest."""
APART_S = 2.0
"""Workloads of a scenario never share a second."""


@dataclass(slots=True)
class _Job:
    """A Job of the scenario and its Workload."""

    item: Pending
    admission: Admission | None = None
    evictions: int = 0
    reasons: list[str] = field(default_factory=list)
    reason: str | None = None


async def replay(scenario: Json) -> Outcome:
    """Run all phases of a scenario and compare after each."""
    outcome = Outcome(str(scenario.get("id")))
    try:
        simulation = _Simulation(scenario)
        phases = zip(scenario["phases"], scenario["expected"], strict=True)
        for number, (phase, expected) in enumerate(phases):
            if not await simulation.run(phase):
                outcome.mismatches.append(f"phase {number}: no rest after {MOST_STEPS} steps")
            for name, wanted in sorted(expected.items()):
                _compare(outcome, f"phase {number} {name}", wanted, simulation.found(name))
    except Exception as error:  # one scenario that cannot be replayed must not hide the others
        outcome.mismatches.append(f"cannot be replayed: {type(error).__name__}: {error}")
    return outcome


def _compare(outcome: Outcome, where: str, wanted: Json, found: Json) -> None:
    for key in ("quotaReserved", "admitted", "flavors", "count", "evictions"):
        want, have = wanted[key], found[key]
        if key == "evictions":
            want, have = min(want, 2), min(have, 2)
        if want != have:
            outcome.mismatches.append(f"{where}: {key} {found[key]!r}, recorded {wanted[key]!r}")
    for key in ("reason", "preemptionReasons"):
        if wanted.get(key) is not None and wanted[key] != found[key]:
            outcome.hints.append(f"{where}: {key} {found[key]!r}, recorded {wanted[key]!r}")


class _Simulation:
    """The objects of a scenario, its Jobs, and simulated time."""

    def __init__(self, scenario: Json) -> None:
        self.now = 1_000_000.0
        self.objects = {(o["kind"], o["metadata"]["name"]): o for o in scenario["objects"]}
        self.rules = _rules(scenario["config"])
        self.jobs: dict[str, _Job] = {}
        self.scheduler = Scheduler(MemoryIndex())
        self.stopping: list[str] = []
        self._uids = 0
        self._configure()

    def _configure(self) -> None:
        queues: dict[str, ClusterQueue] = {}
        cohorts: list[Cohort] = []
        flavors: dict[str, ResourceFlavor] = {}
        for (kind, name), obj in self.objects.items():
            match kind:
                case "ClusterQueue":
                    queues[name] = convert.to_cluster_queue(obj)
                case "Cohort":
                    cohorts.append(convert.to_cohort(obj))
                case "ResourceFlavor":
                    flavors[name] = convert.to_flavor(obj)
        world = World(queues, tuple(cohorts), flavors, {"default": {}}, {}, self.rules)
        self.scheduler.configure(world, self.now)

    async def run(self, phase: Json) -> bool:
        """Make the changes of a phase, one after the other or all at once; whether it came to
        rest.
        """
        rested = True
        together = phase["arrival"] == "together"
        for kind, change in _changes(phase):
            self.now += APART_S
            await self._change(kind, change)
            if not together:
                rested = await self._rest() and rested
        if together:
            self.scheduler.wake_all(self.now - REACTIVATION_S)
            await self._cycle()
            self.scheduler.wake_all(self.now)
            rested = await self._rest()
        return rested

    async def _change(self, kind: str, change: Any) -> None:
        match kind:
            case "delete":
                job = self.jobs.pop(change)
                self.scheduler.take_out(job.item.uid, self.now)
                self.scheduler.release(job.item.uid, self.now)
                self.stopping = [name for name in self.stopping if name != change]
            case "patch":
                obj = self.objects[change["kind"], change["name"]]
                obj["spec"] = _merged(obj.get("spec") or {}, change["spec"])
                self._configure()
            case "create":
                job = _Job(self._pending(change))
                self.jobs[job.item.name] = job
                self.scheduler.put(job.item, self.now)

    def _pending(self, job: Json) -> Pending:
        meta = job["metadata"]
        labels = meta["labels"]
        queue = labels[Label.QUEUE_NAME.value]
        priority_class = labels.get(Label.PRIORITY_CLASS.value)
        priority = self.objects["WorkloadPriorityClass", priority_class] if priority_class else {}
        self._uids += 1
        return Pending(
            uid=f"{self._uids:04d}",
            namespace=meta["namespace"],
            name=meta["name"],
            local_queue=queue,
            cluster_queue=self.objects["LocalQueue", queue]["spec"]["clusterQueue"],
            priority=priority.get("value", 0),
            created=float(int(self.now)),
            pod_sets=batch_job.pod_sets(job),
        )

    async def _rest(self) -> bool:
        """Go on until nothing can change any more by itself; False if that never happens."""
        for _ in range(MOST_STEPS):
            if self.scheduler.ready:
                await self._cycle()
            elif self.stopping:
                await self._stopped(self.stopping.pop(0))
            elif (due := self.scheduler.due()) is not None:
                self.now = max(self.now, due)
                await self._cycle()
            else:
                return True
        return False

    async def _cycle(self) -> None:
        self.now += CYCLE_S
        for decision in await self.scheduler.cycle(self.now):
            self._carry_out(decision)

    def _carry_out(self, decision: Decision) -> None:
        job = self.jobs[decision.item.name]
        match decision:
            case Fit():
                job.admission, job.reason = decision.admission, None
                holder = self.scheduler.holder(job.item.uid)
                assert holder is not None
                self.scheduler.hold(replace(holder, reserved=float(int(self.now))))
            case Wait():
                job.reason = decision.reason
            case Preempt():
                job.reason = decision.reason
                for holder, reason in decision.victims:
                    if not holder.evicted:
                        self.scheduler.hold(replace(holder, evicted=True))
                        victim = self.jobs[holder.name]
                        victim.evictions += 1
                        victim.reasons.append(reason)
                        self.stopping.append(holder.name)

    async def _stopped(self, name: str) -> None:
        job = self.jobs[name]
        job.admission, job.reason = None, Reason.PENDING_EVALUATION
        self.scheduler.release(job.item.uid, self.now)
        self.scheduler.put(job.item, self.now)

    def found(self, name: str) -> Json:
        """A Job as the scenarios write it."""
        job = self.jobs[name]
        pods = job.admission.pod_sets[0] if job.admission else None
        reason = job.reason
        if pods is None and (wait := self.scheduler.blocked(job.item)):
            reason = wait.reason
        return {
            "quotaReserved": pods is not None,
            "admitted": pods is not None,
            "flavors": dict(pods.flavors) if pods else {},
            "count": pods.count if pods else 0,
            "evictions": job.evictions,
            "preemptionReasons": [str(reason) for reason in job.reasons],
            "reason": None if pods or reason is None else str(reason),
        }


def _changes(phase: Json) -> Iterator[tuple[str, Any]]:
    for kind in ("delete", "patch", "create"):
        for change in phase.get(kind, ()):
            yield kind, change


def _rules(config: Json) -> Rules:
    fair = config.get("fairSharing")
    if fair is None:
        return Rules()
    strategies = fair.get("preemptionStrategies") or list(FairStrategy)
    return Rules(fair_strategies=tuple(FairStrategy(name) for name in strategies))


def _merged(spec: Json, patch: Json) -> Json:
    """RFC 7386: objects are merged, everything else is replaced, null removes."""
    merged = dict(spec)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged
