"""Answers admission checks of `kueue.x-k8s.io/provisioning-request`: asks an autoscaler for nodes.

Off unless the agent is told to: where another controller does it, two would ask. All that it knows
is in Workload, ProvisioningRequest and ProvisioningRequestConfig, so a restart changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError

from federation.api import record_patches as patches
from federation.api.names import ConditionType, Controller
from federation.api.provisioning import ProvisioningRequestConfig, ProvisioningRequestConfigSpec
from federation.api.record import find
from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.elastic import counts
from federation.core.facts import ObjectKey, Record
from federation.edge.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from federation.edge.informer import Informer, Store
from federation.edge.kube import KubeClient
from federation.edge.resources import (
    ADMISSION_CHECKS,
    POD_TEMPLATES,
    PROVISIONING_CONFIGS,
    PROVISIONING_REQUESTS,
    WORKLOADS,
    Json,
)
from federation.edge.services import vital
from federation.jobs import provisioning, template
from federation.jobs.eviction_note import LONGEST
from federation.jobs.provisioning import Verdict
from worker_agent.agent import Agent
from worker_agent.facts import Stage, WorkerJob
from worker_agent.state import stamp
from worker_agent.worklist import Worklist
from worker_agent.workloads import Workloads

log = structlog.get_logger(__name__)

UNREAD_S = 1.0
RETRY_S = 5.0
JOBS_KEPT = 1000
_WORKLOAD = "Workload"


class Check(NamedTuple):
    """An AdmissionCheck of ours: its config, and whether it can be used, if it says that."""

    config: str
    active: bool | None


class Provisioning:
    """`run` it beside the agent."""

    def __init__(self, client: KubeClient, agent: Agent, workloads: Workloads) -> None:
        self._client, self._agent, self._workloads = client, agent, workloads
        self._state = agent.state
        self._work = Worklist(self._look)
        self._configs: Store[ProvisioningRequestConfigSpec] = Store(
            _config, lambda key, old, new: self._configured()
        )
        self._checks: Store[Check] = Store(_check, lambda key, old, new: self._configured())
        self._requests: Store[Json] = Store(lambda obj: obj, lambda key, *objs: self._moved(objs))
        self.informers = [
            Informer(client, ADMISSION_CHECKS, self._checks),
            Informer(client, PROVISIONING_CONFIGS, self._configs),
            Informer(client, PROVISIONING_REQUESTS, self._requests),
        ]
        self._stale = asyncio.Event()
        self._jobs: dict[ObjectKey, str] = {}
        """The UID of the Job of each Workload, by that one's name: another may have the name of one
        that is gone, and waits until what was asked for that is gone too."""
        workloads.on_record = self._recorded

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(vital(informer.run(), f"informer/{informer.resource.plural}"))
            for informer in self.informers:
                await informer.synced.wait()
            self._configured()
            for uid in list(self._state.records):
                self._recorded(uid)
            tasks.create_task(self._work.run())
            while True:
                await self._stale.wait()
                self._stale.clear()
                await self._activate()

    # What changed

    def _recorded(self, uid: str) -> None:
        records = self._state.records
        if len(self._jobs) > 2 * len(records) + JOBS_KEPT:  # most of them are gone
            self._jobs = {record.key: job for job, record in records.items()}
        if (record := records.get(uid)) is not None:
            self._jobs[record.key] = uid
        self._work.mark(uid)

    def _moved(self, objs: tuple[Json | None, ...]) -> None:
        for obj in objs:
            meta = (obj or {}).get("metadata", {})
            for owner in meta.get("ownerReferences") or ():
                key = ObjectKey(meta["namespace"], owner["name"])
                if owner["kind"] == _WORKLOAD and (uid := self._jobs.get(key)) is not None:
                    self._work.mark(uid)

    def _configured(self) -> None:
        self._stale.set()
        for uid, job in self._agent.jobs.items():
            if job.stage is Stage.RESERVED:
                self._work.mark(uid)

    async def _activate(self) -> None:
        """Have each check say whether its config is there: without that its queues are inactive."""
        for (_, name), check in list(self._checks.items.items()):
            usable = ("", check.config) in self._configs.items
            if usable is check.active:
                continue
            text = f"there is no usable ProvisioningRequestConfig {check.config!r}: create it"
            condition = {
                "type": ConditionType.ACTIVE.value,
                "status": str(usable),
                "reason": "Active" if usable else "BadParametersRef",
                "message": "The admission check is active" if usable else text,
                "lastTransitionTime": self._now(),
            }
            body = {"status": {"conditions": [condition]}}
            try:
                await self._client.patch(ADMISSION_CHECKS, name, body, subresource="status")
            except NotFound:
                continue
            except ApiError as error:
                log.warning("check.not_written", check=name, why=str(error))
                asyncio.get_running_loop().call_later(RETRY_S, self._stale.set)

    # One Job

    async def _look(self, uid: str) -> float | None:
        try:
            return await self._one(uid)
        except (Conflict, NotFound):
            return UNREAD_S
        except ApiError as error:
            log.warning("provisioning.failed", uid=uid, why=str(error))
            return RETRY_S

    async def _one(self, uid: str) -> float | None:
        job, record = self._agent.jobs.get(uid), self._state.records.get(uid)
        if job is None or record is None:
            return None
        if job.stage not in (Stage.RESERVED, Stage.RUNNING) or not record.life.reserved:
            return None
        if job.uid in self._state.evicting:
            return None
        again = None
        for state in record.life.checks:
            check = self._checks.items.get(("", state.name))
            config = self._configs.items.get(("", check.config)) if check is not None else None
            if config is None or state.name not in self._state.needed(job):
                continue
            try:
                said = await self._verdict(job, record, state, config)
            except (Forbidden, Invalid) as error:  # a quota, a parameter: nothing announces better
                text = f"nodes cannot be asked for: {error.message}"[:LONGEST]
                said, again = Verdict(CheckState.PENDING, text), RETRY_S
            if said is not None and (said.state, said.message) != (state.state, state.message):
                await self._write(record, state.name, said)
                return again or 0.0
        return again

    async def _verdict(
        self,
        job: WorkerJob,
        record: Record,
        state: AdmissionCheckState,
        config: ProvisioningRequestConfigSpec,
    ) -> Verdict | None:
        """What a check is to say now; None for what it says."""
        assert job.holds is not None
        pods = provisioning.managed(job.pod_sets, counts(job.holds), config)
        if state.state not in (CheckState.PENDING, CheckState.READY):
            return None
        if not pods:
            return Verdict(CheckState.READY, "no pods of it need nodes to be made")
        attempt = (state.retry_count or 0) + 1
        name = provisioning.request_name(record.key.name, state.name, attempt)
        found = self._requests.items.get((record.key.namespace, name))
        if found is None:
            if state.state is CheckState.PENDING and job.stage is Stage.RESERVED:
                await self._ask(job, record, name, config, pods)
            return None
        if not _is_owned(found, record):
            text = f"ProvisioningRequest {name} of a Workload that is gone has to be deleted first"
            return Verdict(CheckState.PENDING, text) if state.state is CheckState.PENDING else None
        said = provisioning.judged(found, config, attempt, pods, started=job.stage is Stage.RUNNING)
        back = state.state is CheckState.READY and said.state is not CheckState.REJECTED
        return None if back and said.state is not CheckState.RETRY else said

    async def _ask(
        self,
        job: WorkerJob,
        record: Record,
        name: str,
        config: ProvisioningRequestConfigSpec,
        pods: list[str],
    ) -> None:
        """The templates first: a request without them would be refused for good."""
        assert job.holds is not None
        body, kind = self._state.book.bodies[job.uid], self._state.kind_of(job)
        flavors = self._state.scheduler.snapshot.flavors
        assigned = {p.name: p for p in job.holds.pod_sets}
        templates = {role.name: role.template for role in kind.roles(kind.original(body))}
        namespace, owner = record.key.namespace, _owner(record)
        asked = []
        for pod_set in pods:
            used = set(assigned[pod_set].flavors.values())
            given = [flavors[n] for n in sorted(used & flavors.keys())]
            added = template.additions(assigned[pod_set], given)
            made = template.started(templates[pod_set], assigned[pod_set], added)
            called = provisioning.template_name(name, pod_set, record.uid)
            await self._create(
                POD_TEMPLATES, provisioning.pod_template(called, namespace, owner, made)
            )
            asked.append((called, assigned[pod_set].count))
        notes = body["metadata"].get("annotations") or {}
        await self._create(
            PROVISIONING_REQUESTS,
            provisioning.request(name, namespace, owner, config, asked, notes),
        )
        log.info("nodes.asked_for", job=str(job.key), request=name)

    async def _create(self, resource: Any, body: Json) -> None:
        try:
            await self._client.create(resource, body)
        except AlreadyExists:
            return  # an agent before this one made it

    async def _write(self, record: Record, check: str, said: Verdict) -> None:
        entries = [
            _entry(entry, said, self._now()) if entry["name"] == check else entry
            for entry in record.status.get("admissionChecks") or ()
        ]
        body = patches.status_patch(record, admissionChecks=entries)
        name, namespace = record.key.name, record.key.namespace
        written = await self._client.patch(WORKLOADS, name, body, namespace, subresource="status")
        self._workloads.on_event("MODIFIED", written)

    def _now(self) -> str:
        return stamp(self._state.settings.clock())


def _entry(before: Json, said: Verdict, now: str) -> Json:
    """An entry of status.admissionChecks; what it says of pods is never edited once it is Ready."""
    entry = {**before, "state": said.state.value, "message": said.message[:32768]}
    if before["state"] != said.state:
        entry["lastTransitionTime"] = now
    if said.retry_after_s is not None:
        entry["requeueAfterSeconds"] = said.retry_after_s
    if said.updates and before["state"] != CheckState.READY:
        entry["podSetUpdates"] = list(said.updates)
    return entry


def _owner(record: Record) -> Json:
    return {
        "apiVersion": f"{WORKLOADS.group}/{WORKLOADS.version}",
        "kind": _WORKLOAD,
        "name": record.key.name,
        "uid": record.uid,
        "controller": True,
    }


def _is_owned(request: Json, record: Record) -> bool:
    owners = request["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == record.uid for owner in owners)


def _check(obj: Json) -> Check | None:
    spec = obj["spec"]
    if spec.get("controllerName") != Controller.PROVISIONING_REQUEST:
        return None
    name = (spec.get("parameters") or {}).get("name", "")
    said = find(obj.get("status") or {}, ConditionType.ACTIVE)
    return Check(name, None if said is None else said["status"] == "True")


def _config(obj: Json) -> ProvisioningRequestConfigSpec | None:
    try:
        return ProvisioningRequestConfig.model_validate(obj).spec
    except ValidationError as error:
        log.warning("provisioning.config_unreadable", name=obj["metadata"]["name"], why=str(error))
        return None
