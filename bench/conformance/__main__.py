"""The command: every mismatch in a line, then `N passed, M failed` as the last one."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.conformance.admission import Outcome, replay

EXCEPTED = Path(__file__).parent / "excepted.json"
"""Scenario ids with the reason why the recorded decision is not the only right one."""


def main(arguments: list[str] | None = None) -> int:
    """Replay the files; 0 if every scenario passed or is excepted."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument("kind", choices=["admission"])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        scenarios = list(_scenarios(options.files))
    except (OSError, ValueError) as error:
        print(f"cannot be read: {error}", file=sys.stderr)
        return 2
    outcomes = [asyncio.run(replay(scenario)) for scenario in scenarios]
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
