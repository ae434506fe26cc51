"""`python -m worker_agent`: connect to this cluster and to its Lease, run until told to stop.

`--config FILE` names a Configuration in the format of Kueue's manager.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from federation.api.names import Label
from federation.core.facts import BATCH_JOB
from federation.core.failover import Tier
from federation.core.holding import unlimited
from federation.edge.catalog import Catalog
from federation.edge.claim_catalog import ClaimCatalog
from federation.edge.configuration_file import ConfigurationFileError, configured, configured_kinds
from federation.edge.environment import complaint
from federation.edge.informer import Informer, Select
from federation.edge.kind_informers import COPIES, LOCAL, NOTHING, QUEUED, KindInformers
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import load_endpoint
from federation.edge.machine import boot_id, boottime
from federation.edge.node_groups_file import node_groups
from federation.edge.resources import JOBS, RESOURCE_QUOTAS, WORKLOADS
from federation.edge.services import run_program, vital
from federation.edge.telemetry import configure_logging, settle_memory
from federation.edge.web import app, counted, serve
from worker_agent.admitted_pods import AdmittedPods
from worker_agent.agent import Agent, Settings
from worker_agent.deadline_file import DeadlineFile
from worker_agent.device_limits import limit_store
from worker_agent.epochs import Epochs
from worker_agent.gates import Gates
from worker_agent.heartbeat import Beat, Heartbeat, ReplacedError
from worker_agent.nodes import Nodes
from worker_agent.pins import Pins
from worker_agent.prepared import Prepared
from worker_agent.provisioning import Provisioning
from worker_agent.pulse import Pulse
from worker_agent.report import Reporter
from worker_agent.settings import AgentSettings
from worker_agent.takeover import Takeover
from worker_agent.whereabouts import WrongPlaceError, refuse_at_once, refuse_beside_manager
from worker_agent.workloads import Workloads

log = structlog.get_logger(__name__)

NO_LEASE = unlimited(1)


async def run(
    client: KubeClient,
    heartbeat: Heartbeat | None,
    settings: AgentSettings,
    rules: Settings,
    beat: Beat | None = None,
) -> None:
    """Read everything, then decide, until cancelled. `beat` runs the heartbeat; without it, that is
    done in the loop of the caller. There is none beside a manager, whose cluster nobody fences.
    """
    if not settings.beside_manager:
        await refuse_at_once(client)
    lease = (lambda: heartbeat.lease) if heartbeat else (lambda: NO_LEASE)
    agent: Agent | None = None

    def changed() -> None:
        if agent is not None:
            agent.quotas_changed()

    catalog = Catalog(client, changed)
    if rules.policies.resources.devices.mappings:
        catalog.claims.want()
    agent = Agent(client, catalog, lease, rules)
    workloads = Workloads(client, agent)
    gates, pins, prepared = Gates(client, agent), Pins(client, agent), Prepared(client, agent)
    admitted = AdmittedPods(client, agent)
    beside = settings.beside_manager
    select, copies = (LOCAL, ()) if beside else (QUEUED, rules.off)
    kinds = KindInformers(client, rules.kinds, agent.book.of, select=select, copies=copies)
    kinds.on_part = prepared.see
    reporter = _reporter(client, agent, heartbeat, settings, kinds) if heartbeat else None
    informers = [*catalog.informers, *_informers(client, agent, workloads)]
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        if heartbeat and reporter:
            take_over = Takeover(client, Epochs(client), agent, reporter, ready)
            beats = (beat or heartbeat.beat)(take_over, agent.lease_changed)
            tasks.create_task(vital(beats, "heartbeat"))
        tasks.create_task(vital(agent.nodes.run(), "nodes"))
        tasks.create_task(vital(catalog.claims.run(), "claims"))
        for informer in informers:
            tasks.create_task(vital(informer.run(), f"informer/{informer.resource.plural}"))
        tasks.create_task(vital(kinds.run(), "kinds"))
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        informers.append(admitted.informer)
        await kinds.settled.wait()
        await catalog.claims.ready()
        if not beside:
            await refuse_beside_manager(client)
        if reporter:
            await reporter.recall()
        if settings.provisioning:
            asking = Provisioning(client, agent, workloads)
            informers += asking.informers
            tasks.create_task(vital(asking.run(), "provisioning"))
        if settings.listen:
            problem = _problem(informers, agent.nodes, catalog.claims, heartbeat)
            web = serve(app(problem, _status(client, heartbeat)), settings.listen)
            tasks.create_task(vital(web, "web"))
        log.info("agent.started", cluster=settings.cluster, beside=beside, jobs=len(agent.jobs))
        ready.set()
        parts = {"agent": agent.run(), "workloads": workloads.run()}
        parts |= {"gates": gates.run(), "pins": pins.run(), "prepared": prepared.run()}
        parts["admitted-pods"] = admitted.run()
        if reporter:
            parts["report"] = reporter.run()
        for name, part in parts.items():
            tasks.create_task(vital(part, name))


def _reporter(
    client: KubeClient,
    agent: Agent,
    heartbeat: Heartbeat,
    settings: AgentSettings,
    kinds: KindInformers,
) -> Reporter:
    tier = partial(heartbeat.tier, settings.tier)
    reporter = Reporter(client, agent.state.catalog, agent, settings.cluster, tier, kinds)
    reporter.epoch = heartbeat.lease.epoch
    return reporter


def _informers(client: KubeClient, agent: Agent, workloads: Workloads) -> list[Informer]:
    """What the agent itself follows, beside what its catalog does."""
    devices = agent.devices
    job_off = any(kind.name == BATCH_JOB for kind in agent.state.settings.off)
    beside = agent.state.settings.beside_manager
    jobs = (NOTHING if job_off else LOCAL) if beside else (COPIES if job_off else QUEUED)
    records = Select(label_selector=f"{Label.LOCAL.value}=true") if beside else None
    limits = limit_store(devices.ledger, devices.vendors, devices.ease)
    return [
        agent.state.checks.informer,
        Informer(client, RESOURCE_QUOTAS, limits),
        Informer(client, WORKLOADS, workloads, select=records),
        Informer(client, JOBS, agent.book, select=jobs),
    ]


def _problem(
    informers: list[Informer], nodes: Nodes, claims: ClaimCatalog, heartbeat: Heartbeat | None
) -> Callable[[], str]:
    """Why the agent makes no progress; '' if it does."""

    def problem() -> str:
        errors = [str(informer.error) for informer in informers if informer.error is not None]
        errors += nodes.errors() + claims.errors()
        if not errors and heartbeat and heartbeat.problem:
            errors = [heartbeat.problem]
        return "; ".join(errors)

    return problem


def _status(client: KubeClient, heartbeat: Heartbeat | None) -> Callable[[], dict[str, Any]]:
    def status() -> dict[str, Any]:
        lease = {"lease": _told(heartbeat)} if heartbeat else {}
        return {"requests": counted(client.requests), **lease}

    return status


def _told(heartbeat: Heartbeat) -> dict[str, object]:
    """The lease as the status page shows it, and as guards of nodes read it there."""
    lease, now = heartbeat.lease, boottime()
    problem = heartbeat.problem or heartbeat.note_problem
    shown: dict[str, object] = {"epoch": lease.epoch, "problem": problem}
    if lease.tenure is None:
        return {**shown, "endsInSeconds": None}
    return {
        **shown,
        "endsInSeconds": round(lease.tenure.deadline - now, 1),
        "renewedSecondsAgo": round(now - lease.tenure.renewed, 1),
        "killSeconds": lease.terms.kill,
    }


async def _main(settings: AgentSettings, rules: Settings) -> None:
    worker = load_endpoint(settings.kubeconfig, settings.context)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(KubeClient(worker, user_agent="fedq-agent"))
        settle_memory()
        if settings.beside_manager:
            await _until_signal(run(client, None, settings, rules))
            return
        management = load_endpoint(settings.management_kubeconfig)
        lease = KubeClient(management, user_agent="fedq-agent")  # closed by the pulse
        heartbeat = Heartbeat(
            lease,
            settings.cluster,
            f"agent-{uuid.uuid4()}",
            file=_file(settings),
            guarded=settings.tier is not Tier.AGENT,
        )
        beat = Pulse(heartbeat, lease).beat
        await _until_signal(run(client, heartbeat, settings, rules, beat))


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await task


def _file(settings: AgentSettings) -> DeadlineFile | None:
    path = settings.deadline_file
    return None if path is None else DeadlineFile(path, settings.cluster, boot_id())


def _rules(settings: AgentSettings, configuration: Path | None) -> Settings:
    policies = configured(configuration)
    kinds = configured_kinds(configuration)
    groups = node_groups(settings.node_groups, policies.resources.vendors)
    return Settings(
        policies,
        binder=settings.cards,
        card_strategy=settings.card_strategy,
        checks_s=settings.checks_s,
        node_groups=groups,
        kinds=kinds.complete,
        off=kinds.off,
        beside_manager=settings.beside_manager,
    )


def main() -> int:
    """Exit code 0 after a signal, 1 when the agent cannot go on, 2 for settings it cannot use."""
    parser = argparse.ArgumentParser(prog="worker_agent", description="The agent of one worker.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a Configuration (YAML)")
    arguments = parser.parse_args()
    try:
        settings = AgentSettings()
        configure_logging(settings.log_level)
        rules = _rules(settings, arguments.config)
    except ValidationError as error:
        text = f"the agent needs these settings in its environment: {complaint(error)}"
        print(text, file=sys.stderr)  # noqa: T201  (before logging is set up)
        return 2
    except ConfigurationFileError as error:
        print(error, file=sys.stderr)  # noqa: T201  (a person reads it)
        return 2
    replaced: list[str] = []
    wrong: list[str] = []
    code = 1
    try:
        code = run_program(_main(settings, rules), "agent")
    except* ReplacedError as group:
        replaced = [str(error) for error in group.exceptions]
    except* WrongPlaceError as group:
        wrong = [str(error) for error in group.exceptions]
    for text in replaced:
        log.error("agent.replaced", why=text)
    for text in wrong:
        log.error("agent.refuses", why=text)
    return code


if __name__ == "__main__":
    sys.exit(main())
