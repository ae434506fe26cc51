"""How full our placement packs the cards of a production trace.

    python -m bench.packing --trace DIR [--lists default,gpuspec33] [--policies fgd,default]

Every list in DIR without --lists. Arrivals come one at a time in the published order, nothing
departs, what fits nowhere is dropped; an independent checker counts after every placement. Printed
is the share of all cards that is allocated when 100 to 130 per cent of them have been asked for,
the cards idle at 100, and the gain over FGD as its authors report it, paired by seed.

`--mix online`: the strategy knows only the arrivals so far, not the list's mix, as FGD does.
`--split family`: four clusters by card family, chosen by comparing placement scores; the policy is
run in one cluster as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from bench.packing import report, trace
from bench.packing.policies import LIST, ONLINE
from bench.packing.run import Result, one_fleet, run
from bench.packing.split import Clusters

Task = tuple[Path, str, str, int, str, str]


@lru_cache(maxsize=2)
def _trace(folder: Path, name: str) -> trace.Trace:
    return trace.load(folder, name)


def work(task: Task) -> Result:
    """One run, in a process of its own kind."""
    folder, name, policy, seed, mix, split = task
    make = Clusters if split else one_fleet
    return run(_trace(folder, name), policy, seed, mix, make)


def _tasks(options: argparse.Namespace) -> Iterator[Task]:
    for name in options.lists or trace.lists(options.trace):
        seeds = options.seeds or sorted(_trace(options.trace, name).orders)
        for seed in seeds:
            for policy in options.policies:
                yield options.trace, name, policy, seed, options.mix, ""
                if options.split and policy != report.FGD:
                    yield options.trace, name, policy, seed, options.mix, options.split


def main(arguments: list[str] | None = None) -> int:
    """Run and print; with --json one JSON object."""
    options = _parser().parse_args(arguments)
    if not (options.trace / "openb_node_list_gpu_node.csv").exists():
        print(f"{options.trace} has no openb_node_list_gpu_node.csv: no trace", file=sys.stderr)
        return 2
    published = trace.published(options.trace)
    tasks = list(_tasks(options))
    if not tasks:
        print(f"{options.trace} has no list with arrival orders", file=sys.stderr)
        return 2
    cards = _trace(options.trace, tasks[0][1]).milli // trace.MILLI
    results = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for task, result in zip(tasks, pool.map(work, tasks), strict=True):
            results.append(_named(result, task[-1]))
            print(report.line(results[-1], published, cards), file=sys.stderr, flush=True)
    found = report.summaries(results, published, cards)
    if options.json:
        print(json.dumps(report.as_json(results, found, published, options.mix, options.split)))
    else:
        print(report.table(found))
        print(f"worst_gain_vs_fgd: {report.worst_gain(found)}")
        print(f"fgd_error: {report.fgd_error(results, published)}")
    return 0


def _named(result: Result, split: str) -> Result:
    """The policy of a split run is called so."""
    return replace(result, policy=f"{result.policy}/{split}") if split else result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.packing", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--lists", type=_words, default=[])
    parser.add_argument("--policies", type=_words, default=[report.FGD, report.DEFAULT])
    parser.add_argument("--seeds", type=_numbers, metavar="47,48")
    parser.add_argument("--mix", choices=(LIST, ONLINE), default=LIST)
    parser.add_argument("--split", choices=("", "family"), default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


if __name__ == "__main__":
    sys.exit(main())
