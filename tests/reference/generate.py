"""Random scenarios: small trees under pressure, with everything the objects can say."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.reference.scenario import Json

STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
MOST_QUEUES, MOST_DEPTH = 8, 4


def scenario(random: Random, jobs: int = 28) -> Json:
    """A scenario, the same for the same random numbers."""
    return _Generator(random).scenario(jobs)


class _Generator:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.grouped = self.chance(0.1)
        """Whether pod sets may go together; that takes flavors with a topology."""
        self.resources = self.some(["cpu", "memory", "example.com/gpu"], 1, 3, [5, 3, 2])
        if self.chance(0.15):
            self.resources.append("pods")
        self.flavors = [f"f{n}" for n in range(self.pick([1, 1, 2, 2, 2, 3, 3]))]
        self.scale = self.pick([2, 4, 4, 8])
        self.tight = self.pick([0.0, 0.15, 0.4])
        """How often a quota has a limit."""
        self.rising = self.chance(0.4)
        """Whether those that come later have a higher priority: then much is preempted."""
        self.careful = self.pick([0.05, 0.05, 0.05, 0.4])
        """How often a workload may not be preempted."""
        self.eager = self.chance(0.4)
        """Whether queues reclaim what they lend, and some have nothing but what they borrow."""
        self.cohorts = self._cohort_names()
        self.queues = [f"q{n}" for n in range(self.pick([1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8]))]
        self.groups = self._split()
        self.selectors = {
            name: self.pick([None, {"team": "a"}]) for name in self.queues if self.chance(0.05)
        }
        """They do not change: what a queue did not select before it was parked is left out."""

    # --- choices ---

    def chance(self, probability: float) -> bool:
        return self.random.random() >= 1 - probability  # 0, the simplest, is no

    def pick(self, options: Any) -> Any:
        return self.random.choice(list(options))

    def some(self, options: list[str], least: int, most: int, weights: list[int]) -> list[str]:
        sizes = list(range(least, most + 1))
        size = self.random.choices(sizes, weights)[0]
        return self.random.sample(options, min(size, len(options)))

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    # --- objects ---

    def scenario(self, most: int) -> Json:
        """At most so many jobs, and what happens to them."""
        jobs = {f"j{n:02}": self.job(n) for n in range(self.number(1, most))}
        return {
            "rules": self.rules(),
            "namespaces": {"team": {"team": "a"}, "other": {}},
            "flavors": {name: self.flavor() for name in self.flavors},
            "cohorts": {name: self.cohort(name) for name in self.cohorts if self.chance(0.9)},
            "queues": {name: self.queue(name) for name in self.queues},
            "jobs": jobs,
            "steps": self.steps(jobs),
        }

    def rules(self) -> Json:
        data: Json = {}
        if self.chance(0.5):
            data["fair"] = self.pick([STRATEGIES, STRATEGIES, STRATEGIES[:1], STRATEGIES[1:]])
        if self.chance(0.1):
            data["undeclared"] = "IgnoreUndeclared"
        if self.chance(0.1):
            data["partial"] = False
        return data

    def flavor(self) -> Json:
        data: Json = {}
        if self.chance(0.3):
            data["labels"] = {"zone": self.pick("ab")}
        if self.chance(0.15):
            effect = self.pick(["NoSchedule", "NoExecute", "PreferNoSchedule"])
            data["taints"] = [["spot", "yes", effect]]
            if self.chance(0.2):
                data["tolerations"] = [["spot", "Exists", "", ""]]
        if self.grouped:
            data["topology"] = True
        return data

    def _cohort_names(self) -> dict[str, str]:
        """Cohorts, each with its parent: chains and trees up to the greatest depth."""
        parents: dict[str, str] = {}
        depth: dict[str, int] = {}
        for n in range(self.pick([0, 1, 1, 1, 2, 3, 3, 4, 5])):
            above = [name for name in parents if depth[name] < MOST_DEPTH]
            parent = self.pick(above) if above and self.chance(0.85) else ""
            name = f"c{n}"
            parents[name], depth[name] = parent, depth.get(parent, 0) + 1
        return parents

    def _split(self) -> list[tuple[list[str], list[str]]]:
        """Resource groups: which resources, and which flavors."""
        if len(self.resources) > 1 and len(self.flavors) > 1 and self.chance(0.4):
            cut, at = self.number(1, len(self.resources) - 1), self.number(1, len(self.flavors) - 1)
            return [
                (self.resources[:cut], self.flavors[:at]),
                (self.resources[cut:], self.flavors[at:]),
            ]
        return [(self.resources, self.flavors)]

    def quota(self, *, limits: bool, cohort: bool = False) -> list[int | None]:
        nominal = self.pick([0, 0, 1, 2, 3, 4, 5, 6, 8])
        if (cohort and self.chance(0.5)) or (self.eager and self.chance(0.3)):
            nominal = 0
        limits = limits and self.chance(self.tight)
        borrowing = self.number(0, self.scale + 2) if limits and self.chance(0.8) else None
        most = nominal + (6 if cohort else 0)
        lending = self.number(0, most) if limits and self.chance(0.8) else None
        return [nominal, borrowing, lending]

    def resource_groups(self, *, limits: bool, cohort: bool = False) -> list[Any]:
        found = []
        for resources, flavors in self.groups:
            order = list(flavors)
            if self.chance(0.2):
                self.random.shuffle(order)
            if len(order) > 1 and self.chance(0.2):
                order = order[:-1]
            of_flavors = [
                [name, {r: self.quota(limits=limits, cohort=cohort) for r in resources}]
                for name in order
            ]
            found.append([resources, of_flavors])
        return found

    def cohort(self, name: str) -> Json:
        parent = self.cohorts[name]
        data: Json = {"parent": parent}
        if self.chance(0.5):
            data["groups"] = self.resource_groups(limits=bool(parent), cohort=True)
        if self.chance(0.3):
            data["weight"] = self.pick([0, 0.5, 1, 2, 3])
        return data

    def queue(self, name: str) -> Json:
        cohort = self.pick(self.cohorts) if self.cohorts and self.chance(0.9) else ""
        data: Json = {"cohort": cohort, "groups": self.resource_groups(limits=bool(cohort))}
        if self.chance(0.3):
            data["weight"] = self.pick([0, 0.5, 1, 2, 3])
        if self.chance(0.25):
            data["strategy"] = "StrictFIFO"
        if self.chance(0.03):
            data["stop"] = self.pick(["Hold", "HoldAndDrain"])
        if name in self.selectors:
            data["selector"] = self.selectors[name]
        return data | self.policies()

    def policies(self) -> Json:
        data: Json = {
            "within": self.pick(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
            "reclaim": self.pick(["Never", "LowerPriority", "Any", "Any"]),
        }
        if self.eager:
            data["reclaim"] = self.pick(["LowerPriority", "Any", "Any", "Any"])
        if data["reclaim"] != "Never" and self.chance(0.5):
            data["borrow"] = True
            if self.chance(0.6):
                data["threshold"] = self.number(-1, 3)
        data["when_can_borrow"] = self.pick(["MayStopSearch", "TryNextFlavor", "TryNextFlavor"])
        data["when_can_preempt"] = self.pick(["MayStopSearch", "TryNextFlavor", "TryNextFlavor"])
        if data["when_can_borrow"] == data["when_can_preempt"] == "TryNextFlavor":
            data["preference"] = self.pick(
                ["BorrowingOverPreemption", "PreemptionOverBorrowing", "PreemptionOverBorrowing"]
            )
        return data

    def job(self, number: int) -> Json:
        size = self.pick([1, 1, 1, 1, 2, 2, 3])
        pods = [self.pod_set(f"p{n}") for n in range(size)]
        if self.chance(0.2):
            pods[-1]["count"] = self.number(2, self.scale + 2)
            pods[-1]["min"] = self.number(1, pods[-1]["count"])
        if self.grouped and size > 1 and self.chance(0.6):
            pods[0].pop("min", None)
            pods[0] |= {"group": "g", "count": 1}
            pods[1] |= {"group": "g"}
        data: Json = {
            "queue": self.pick(self.queues),
            "priority": number // 4 if self.rising else self.pick([-1, 0, 0, 0, 1, 2, 3]),
            "created": number if self.chance(0.9) else self.number(0, 20),
            "pods": pods,
        }
        if self.chance(0.05):
            data["gated"] = True
        if self.chance(self.careful):
            data["preemptible"] = False
        if self.chance(0.03):
            data["problem"] = "requests exceed its limits"
        if self.chance(0.1):
            data["namespace"] = "other"
        if self.chance(0.1):
            data["late"] = True
        return data

    def pod_set(self, name: str) -> Json:
        wanted = [r for r in self.resources if r != "pods" and self.chance(0.8)]
        requests = {r: self.pick([0, 1, 1, 1, 2, 2, 3, self.scale]) for r in wanted}
        if self.chance(0.03):
            requests["example.com/undeclared"] = self.number(0, 1)
        data: Json = {"name": name, "count": self.pick([0, 1, 1, 1, 1, 2, 3]), "requests": requests}
        if self.chance(0.1):
            data["selector"] = {"zone": self.pick("ab")}
        if self.chance(0.1):
            data["affinity"] = [self.term() for _ in range(self.number(1, 2))]
        if self.chance(0.3):
            data["tolerations"] = [
                self.pick([["spot", "Equal", "yes", "NoSchedule"], ["spot", "Exists", "", ""]])
            ]
        return data

    def term(self) -> list[Any]:
        key = self.pick(["zone", "zone", "disk"])
        return [[key, self.pick(["In", "NotIn"]), [self.pick("ab")]]]

    # --- steps ---

    def steps(self, jobs: Json) -> list[Any]:
        """Arrivals in between everything else; the same job may come again after it has left."""
        found: list[Any] = []
        for name in jobs:
            found.append(["arrive", name])
            while self.chance(0.55):
                found.append(self.step(jobs))
        found += [self.step(jobs) for _ in range(self.number(0, 15))]
        if self.chance(0.3):  # all at once
            found.sort(key=lambda step: step[0] != "arrive")
        return found

    def step(self, jobs: Json) -> list[Any]:
        what = self.random.choices(
            ["cycle", "finish", "stop", "wait", "edit", "drop", "evict", "update", "written"],
            [50, 10, 20, 10, 3, 2, 2, 2, 2],
        )[0]
        number = self.number(0, 9)
        match what:
            case "wait":
                return ["wait", self.pick([0.3, 1.0, 1.5])]
            case "edit":
                return self.edit()
            case "stop":
                return ["stop", number, self.pick([0, 0, 0, 0, 0, 3])]
            case "update":
                return ["update", number, {"priority": self.number(-1, 3)}]
            case "cycle":
                return ["cycle"]
        return [what, number]

    def edit(self) -> list[Any]:
        """Changed objects: everything of it anew, or gone."""
        kind = self.pick(["queues", "queues", "queues", "queues", "cohorts", "cohorts", "flavors"])
        if kind == "queues":
            name = self.pick(self.queues)
            return ["edit", kind, name, None if self.chance(0.1) else self.queue(name)]
        if kind == "cohorts" and self.cohorts:
            name = self.pick(self.cohorts)
            data = self.cohort(name)
            if self.chance(0.1):
                data["parent"] = self.pick(self.cohorts)
            return ["edit", kind, name, None if self.chance(0.1) else data]
        return ["edit", "flavors", self.pick(self.flavors), self.flavor()]
