"""Replay recorded decisions: every mismatch in a line, then `N passed, M failed` as the last one.

Each document (a line of a file) is one unit, however many steps it has: it passes if nothing in it
differs. Exit code 0 if none failed, 1 if some did, 2 if a file cannot be read. `admission` are
scenarios of Kueue's admission, `vgpu` sequences of HAMi's scheduler; where the product knowingly
differs is listed with the reason in excepted.json and vgpu_differences.json beside this.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.conformance import admission, vgpu
from bench.conformance.outcome import Outcome

EXCEPTED = Path(__file__).parent / "excepted.json"
"""Scenario ids with the reason why the recorded decision is not the only right one."""

KINDS: dict[str, Callable[[dict[str, Any]], Outcome]] = {
    "admission": lambda scenario: asyncio.run(admission.replay(scenario)),
    "vgpu": vgpu.replay,
}


def main(arguments: list[str] | None = None) -> int:
    """Replay the files; 0 if every scenario passed or is excepted."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        scenarios = list(_scenarios(options.files))
    except (OSError, ValueError) as error:
        print(f"cannot be read: {error}", file=sys.stderr)
        return 2
    outcomes = [KINDS[options.kind](scenario) for scenario in scenarios]
    return _report(outcomes, json.loads(EXCEPTED.read_text())[options.kind])


def _scenarios(files: list[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        for line in file.read_text().splitlines():
            if line.strip():
                yield json.loads(line)


def _report(outcomes: list[Outcome], excepted: dict[str, str]) -> int:
    failed = 0
    for outcome in outcomes:
        excuse = excepted.get(outcome.scenario) if outcome.mismatches else None
        for text in outcome.mismatches:
            print(f"{outcome.scenario} {text}" + (f" (excepted: {excuse})" if excuse else ""))
        failed += bool(outcome.mismatches) and excuse is None
    for outcome in outcomes:
        for text in outcome.hints:
            print(f"{outcome.scenario} soft: {text}")
    used = sum(bool(o.mismatches) and o.scenario in excepted for o in outcomes)
    print(f"soft: {sum(len(outcome.hints) for outcome in outcomes)} reasons differ")
    print(f"excepted: {used}")
    print(f"{len(outcomes) - failed - used} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
