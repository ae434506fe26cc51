"""`python -m tests.reference.fuzz --seed N --runs M`: random scenarios, core against model.

Prints each mismatch with the smallest scenario that shows it, which `--replay FILE` runs again,
and a line of totals at the end. The exit status is 1 if there was a mismatch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.reference.drive import Failure
from tests.reference.duel import Tally, play
from tests.reference.generate import scenario as generate
from tests.reference.scenario import Json
from tests.reference.shrink import shrink


def scenario(seed: int, number: int) -> Json:
    """The scenario of that number; JSON has no tuples, so neither has it."""
    made: Json = json.loads(json.dumps(generate(Random(f"{seed}/{number}"))))
    return made


def mismatch(of: Json, tally: Tally | None = None) -> Failure | None:
    """How a scenario fails, if it does. An exception of either side is a failure too."""
    try:
        play(of, tally)
    except Failure as error:
        return error
    except Exception as error:
        return Failure(f"exception {type(error).__name__}", str(error))
    return None


def smallest(of: Json, kind: str) -> Json:
    """The least that still fails in the same way."""

    def fails(smaller: Json) -> bool:
        found = mismatch(smaller)
        return found is not None and found.kind == kind

    return shrink(of, fails)


def run(seed: int, runs: int, first: int, report: Callable[[str], None]) -> int:
    """Run scenarios; how many failed."""
    started, failed, total = time.monotonic(), 0, Tally()
    for number in range(first, first + runs):
        made = scenario(seed, number)
        found = mismatch(made, total)
        if found is None:
            continue
        failed += 1
        small = smallest(made, found.kind)
        report(f"seed {seed} number {number}: {found}")
        report(f"   smallest: {mismatch(small)}")
        report(json.dumps(small))
    took = time.monotonic() - started
    report(f"seed {seed}: {runs} scenarios, {failed} mismatches, {took:.0f} s {total}")
    return failed


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first scenario")
    parser.add_argument("--replay", type=Path, help="a file with one scenario per line")
    args = parser.parse_args()
    if args.replay is None:
        return int(run(args.seed, args.runs, args.first, _say) > 0)
    found = [mismatch(json.loads(line)) for line in args.replay.read_text().splitlines() if line]
    for number, error in enumerate(found):
        _say(f"{number}: {error or 'agrees'}")
    return int(any(found))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
