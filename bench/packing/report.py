"""Results side by side: what was allocated, and by how much that is more than FGD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from bench.packing.run import POINTS, Result

DEFAULT, FGD = "default", "fgd"


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one list and policy, means over seeds. `gain` is against published FGD if there is any,
    else against our FGD, paired by seed, at 100 and 130 %; None without either.
    """

    list: str
    policy: str
    seeds: int
    allocated: dict[int, float]
    idle_cards: float
    gain: dict[int, float] | None
    worst_seed_gain: float | None
    gain_vs_our_fgd: float | None
    decisions_per_s: float


Published = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]


def published_fgd(published: Published, result: Result, point: int) -> float | None:
    """What FGD's authors report for this list and seed."""
    seeds = published.get(result.list, {}).get("FGD", {})
    return seeds.get(str(result.seed), {}).get(str(point))


def summaries(results: Iterable[Result], published: Published, cards: int) -> list[Summary]:
    """One per list and policy, in the order of the results."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.list, result.policy), []).append(result)
    return [
        _summary(group, groups.get((name, FGD), []), published, cards)
        for (name, _), group in groups.items()
    ]


def _summary(group: list[Result], fgd: list[Result], published: Published, cards: int) -> Summary:
    ours = {result.seed: result.allocated for result in fgd}
    gains = {
        point: [
            result.allocated[point] - base
            for result in group
            if (base := _base(result, point, ours, published)) is not None
        ]
        for point in (100, 130)
    }
    paired = [r.allocated[100] - ours[r.seed][100] for r in group if r.seed in ours]
    allocated = {point: fmean(r.allocated[point] for r in group) for point in POINTS}
    return Summary(
        group[0].list,
        group[0].policy,
        len(group),
        allocated,
        cards * (1 - allocated[100] / 100),
        {point: fmean(values) for point, values in gains.items()} if gains[100] else None,
        min(gains[100], default=None),
        fmean(paired) if paired else None,
        sum(r.decisions for r in group) / sum(r.seconds for r in group),
    )


def _base(
    result: Result, point: int, ours: Mapping[int, Mapping[int, float]], published: Published
) -> float | None:
    base = published_fgd(published, result, point)
    return ours.get(result.seed, {}).get(point) if base is None else base


def fgd_error(results: Iterable[Result], published: Published) -> float | None:
    """The largest difference of our FGD from the published one, over seeds and points."""
    found = [
        abs(result.allocated[point] - base)
        for result in results
        if result.policy == FGD
        for point in POINTS
        if (base := published_fgd(published, result, point)) is not None
    ]
    return max(found, default=None)


def worst_gain(found: Iterable[Summary]) -> float | None:
    """Our default minus FGD at 100 %, of the list where it is least."""
    return min((s.gain[100] for s in found if s.policy == DEFAULT and s.gain), default=None)


def as_json(
    results: list[Result], found: list[Summary], published: Published, mix: str, split: str
) -> dict[str, Any]:
    """All of it."""
    return {
        "mix": mix,
        "split": split,
        "worst_gain_vs_fgd": _rounded(worst_gain(found)),
        "fgd_error": _rounded(fgd_error(results, published)),
        "lists": [_rounded(asdict(summary)) for summary in found],
        "runs": [_rounded(asdict(result)) for result in results],
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def line(result: Result, published: Published, cards: int) -> str:
    """One run, for people."""
    base = published_fgd(published, result, 100)
    gain = "" if base is None else f"  {result.allocated[100] - base:+.2f} to published FGD"
    numbers = " ".join(f"{result.allocated[point]:6.2f}" for point in POINTS)
    idle = cards * (1 - result.allocated[100] / 100)
    return (
        f"{result.list:12} {result.policy:15} seed {result.seed}  {numbers}  idle {idle:5.0f}"
        f"  {result.decisions / result.seconds:6.0f}/s{gain}"
    )


def table(found: Iterable[Summary]) -> str:
    """The summaries, for people."""
    rows = [
        "list         policy          seeds   @100   @110   @120   @130  idle  dec/s  gain vs FGD"
    ]
    for s in found:
        numbers = " ".join(f"{s.allocated[point]:6.2f}" for point in POINTS)
        gain = ""
        if s.gain and s.worst_seed_gain is not None:
            gain = f"{s.gain[100]:+.2f} / {s.gain[130]:+.2f} (worst seed {s.worst_seed_gain:+.2f})"
        if s.gain_vs_our_fgd is not None and s.policy != FGD:
            gain += f", to our FGD {s.gain_vs_our_fgd:+.2f}"
        rows.append(
            f"{s.list:12} {s.policy:15} {s.seeds:5}  {numbers} {s.idle_cards:5.0f}"
            f" {s.decisions_per_s:6.0f}  {gain}"
        )
    return "\n".join(rows)
