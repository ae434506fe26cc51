"""`python -m bench.dst --seeds A..B [--jobs N]`, or `--trace SEED`."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from bench.dst.frozen import hurry
from bench.dst.run import Outcome, run_seed

CHUNK = 5
ADDR_NO_RANDOMIZE = 0x0040000
PR_SET_PDEATHSIG = 1


def _seeds(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def _outcomes(seeds: range, jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs, initializer=_end_with_parent, initargs=(os.getpid(),)) as pool:
        yield from pool.map(run_seed, seeds, chunksize=CHUNK)


def _end_with_parent(parent: int) -> None:
    """A process of the pool would wait for ever for one that was killed."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _fix_order() -> None:
    """Sets have the same order in every run: that of texts depends on a seed, that of other objects
    on their addresses, which Linux chooses at random unless it is told not to.
    """
    os.environ["PYTHONHASHSEED"] = "0"
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def main() -> int:
    """Exit code 1 if any invariant is violated."""
    parser = argparse.ArgumentParser(prog="bench.dst", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(1, 201), metavar="A..B")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--trace", type=int, metavar="SEED", help="print what happens in one")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        _fix_order()
        os.execv(sys.executable, [sys.executable, "-m", "bench.dst", *sys.argv[1:]])
    hurry()
    if arguments.trace is not None:
        outcome = run_seed(arguments.trace, traced=True)
        print("\n".join(outcome.notes))
        return _report(outcome)
    started, bad, virtual, reached = time.monotonic(), 0, 0.0, Counter[str]()
    for outcome in _outcomes(arguments.seeds, arguments.jobs):
        bad += _report(outcome)
        reached += outcome.reached
        virtual += outcome.virtual_s
    took = time.monotonic() - started
    print(
        f"{len(arguments.seeds)} seeds, {virtual / 3600:.0f} virtual hours in {took:.0f} s:"
        f" {bad} with violations"
    )
    print("reached: " + ", ".join(f"{n} {what}" for what, n in sorted(reached.items())))
    return 1 if bad else 0


def _report(outcome: Outcome) -> int:
    for line in outcome.violations:
        print(f"seed {outcome.seed}: {line}", flush=True)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
