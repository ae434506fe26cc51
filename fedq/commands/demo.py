"""`fedq demo`: everything once, from control planes to finished Jobs, by one command."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from fedq.board import Board
from fedq.commands.rigs import take_down
from fedq.demo.objects import (
    NAMESPACE,
    DemoJob,
    cards_per_worker,
    demo_jobs,
    priority_classes,
    queues,
)
from fedq.demo.run import Outcome, run
from fedq.errors import FAILED, CommandError
from fedq.output import wire
from fedq.rig.cli import tell
from fedq.rig.rig import Rig
from fedq.stack import Stack


def demo(
    jobs: Annotated[int, typer.Option(min=1, max=5000, help="Jobs to submit.")] = 12,
    workers: Annotated[int, typer.Option(min=1, max=32, help="Worker clusters.")] = 2,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything up to look at.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for the Jobs at most.")] = 600,
) -> None:
    """Start real control planes, submit Jobs of which some must wait for quota, watch them finish.

    Exit code 0 only if every Job finished and was started exactly once, as counted by watches on
    the worker clusters. Everything is taken down again, also after Ctrl-C or an error.
    """
    rig = Rig.load()
    if not rig.claim():
        raise CommandError(
            f"a rig is up already in {rig.home}",
            "the demo takes down what it started, and would take that down too",
            "Run `fedq rig down` first, or set FEDQ_RIG_HOME to a folder of its own.",
        )
    started = time.monotonic()
    with _interruptible(), _rigged(rig, keep):
        wanted = demo_jobs(jobs)
        _set_up(rig, wanted, workers)
        ready = time.monotonic() - started
        tell(f"ready after {ready:.1f} s; submitting {jobs} Jobs\n")
        with Board("Fedq demo", err=as_json) as board:
            outcome = asyncio.run(run(rig, wanted, board.show, timeout))
        if as_json:
            extra = {"exactlyOnce": outcome.exactly_once, "setupSeconds": round(ready, 2)}
            typer.echo(json.dumps({**wire(outcome), **extra}))
        else:
            typer.echo(f"\n{summary(outcome)}")
    if not outcome.exactly_once:
        raise typer.Exit(FAILED)


def _set_up(rig: Rig, jobs: list[DemoJob], workers: int) -> None:
    """Control planes, Fedq, and queues: the global budget is the sum of the workers'."""
    rig.up(workers, progress=tell)
    stack = Stack(rig)
    tell("installing CRDs, policies and roles")
    stack.install()
    cards = cards_per_worker(jobs, workers)
    stack.apply(rig.management, [*queues(cards * workers), *priority_classes()])
    for worker in rig.workers:
        stack.apply(worker, queues(cards))
    tell("starting Redis, agents and manager")
    stack.start()


@contextmanager
def _rigged(rig: Rig, keep: bool) -> Iterator[None]:
    """Take everything down at the end, whatever happened; a second Ctrl-C does not stop that."""
    try:
        yield
    except BaseException:  # Ctrl-C as well: people are told why it takes a moment
        tell("taking everything down")
        raise
    finally:
        if keep:
            tell(_KEPT)
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            take_down(rig)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does; handlers are put back afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def summary(outcome: Outcome) -> str:
    """What happened, in a few lines."""
    where = ", ".join(f"{count} on {cluster}" for cluster, count in outcome.starts.items())
    verdict = "every Job ran exactly once" if outcome.exactly_once else "NOT as it should be"
    return (
        f"{outcome.finished} of {outcome.submitted} Jobs finished in {outcome.seconds:.1f} s:"
        f" {verdict} ({outcome.duplicates} started twice, {outcome.failed} failed,"
        f" {outcome.unstarted} never started)\n"
        f"starts counted on the workers: {where or 'none'}\n"
        f"{outcome.waited} Jobs had to wait for others to end, the longest"
        f" {outcome.longest_wait:.1f} s"
    )


_KEPT = f"""
everything is still up:
  fedq get jobs -n {NAMESPACE}
  fedq get queues
  fedq get clusters
  kubectl --kubeconfig $(fedq rig kubeconfig management) get workloads -A
  fedq rig down        takes it down"""
