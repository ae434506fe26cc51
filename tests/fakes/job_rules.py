"""What the API server defaults and enforces for batch/v1 Jobs, as far as Fedq relies on it.

Every rule here is proved against a real server by tests/contract.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.patches import Json, Refused, copied

FROZEN = ("selector", "managedBy", "completionMode")
TEMPLATE_SPEC_OPEN = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def on_create(job: Json) -> None:
    """Fill in the defaults, drop the status, make the selector."""
    spec, meta = job["spec"], job["metadata"]
    template = spec["template"]
    if template["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
        _refuse(job, 'spec.template.spec.restartPolicy: Required value: "OnFailure", "Never"')
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    for key, value in {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }.items():
        spec.setdefault(key, value)
    uid = {"batch.kubernetes.io/controller-uid": meta["uid"]}
    generated = {
        **uid,
        "batch.kubernetes.io/job-name": meta["name"],
        "controller-uid": meta["uid"],
        "job-name": meta["name"],
    }
    template_meta = template.setdefault("metadata", {})
    template_meta["labels"] = {**template_meta.get("labels", {}), **generated}
    meta.setdefault("labels", dict(template_meta["labels"]))
    spec.setdefault("selector", {"matchLabels": uid})
    job["status"] = {}


def on_update(old: Json, new: Json) -> None:
    """Refuse changes of what is fixed; the template opens while suspended and not started."""
    for key in FROZEN:
        if old["spec"].get(key) != new["spec"].get(key):
            _refuse(new, f"spec.{key}: Invalid value: field is immutable")
    _check_completions(old["spec"], new)
    waiting = old["spec"].get("suspend") and not old.get("status", {}).get("startTime")
    kept = [_fixed_part(job["spec"]["template"], bool(waiting)) for job in (old, new)]
    if kept[0] != kept[1]:
        _refuse(new, "spec.template: Invalid value: field is immutable")


def _check_completions(before: Json, new: Json) -> None:
    """Indexed Jobs are elastic: completions may follow parallelism."""
    after = new["spec"]
    if before.get("completions") == after.get("completions"):
        return
    if after["completionMode"] != "Indexed":
        _refuse(new, "spec.completions: Invalid value: field is immutable")
    if after.get("completions") != after["parallelism"]:
        _refuse(new, "spec.completions: Invalid value: can only be modified in tandem with"
                     " spec.parallelism")  # fmt: skip


def _fixed_part(template: Json, waiting: bool) -> Json:
    if not waiting:
        return template
    fixed: Json = copied(template)
    for key in ("labels", "annotations"):
        fixed.get("metadata", {}).pop(key, None)
    for key in TEMPLATE_SPEC_OPEN:
        fixed["spec"].pop(key, None)
    for container in fixed["spec"].get("containers", ()):
        container.pop("resources", None)
    return fixed


def on_status(old: Json, new: Json) -> None:
    """Check the new status; zero counters are not kept, as on the wire."""
    before, after = old.get("status", {}), new.get("status", {})
    for key in ("active", "ready", "succeeded", "failed"):
        if after.get(key, 0) < 0:
            _refuse(new, f"status.{key}: Invalid value: must be greater than or equal to 0")
        # `ready` is a pointer: its zero is kept.
        if key != "ready" and not after.get(key):
            after.pop(key, None)
    for key in ("succeeded", "failed"):
        if after.get(key, 0) < before.get(key, 0):
            _refuse(new, f"status.{key}: Invalid value: cannot decrease the {key} counter")
    if after.get("ready", 0) > after.get("active", 0):
        _refuse(new, "status.ready: Invalid value: cannot set more ready pods than active")
    _check_start(old, new)
    _check_conditions(new, _true(before), _true(after))


def _check_start(old: Json, new: Json) -> None:
    before, after = old["status"].get("startTime"), new["status"].get("startTime")
    if before and before != after and not new["spec"].get("suspend"):
        what = "cannot be removed" if after is None else "cannot be updated"
        _refuse(new, f"status.startTime: {what} for unsuspended job")


def _check_conditions(job: Json, before: set[str], after: set[str]) -> None:
    status = job["status"]
    for kept in ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"):
        if kept in before - after:
            _refuse(job, f"status.conditions: cannot disable the {kept}=True condition")
    for final, first in (("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")):
        if final in after and first not in after:
            _refuse(job, f"status.conditions: cannot set {final} without {first}")
    if "SuccessCriteriaMet" in after and after & {"FailureTarget", "Failed"}:
        _refuse(job, "status.conditions: cannot both succeed and fail")
    done = status.get("completionTime")
    if bool(done) != ("Complete" in after):
        _refuse(job, "status.completionTime: belongs to Complete jobs, and only to them")
    if after & {"Complete", "Failed"}:
        if status.get("active"):
            _refuse(job, "status.active: active>0 is invalid for finished job")
        if not status.get("startTime"):
            _refuse(job, "status.startTime: Required value for finished job")
    if done and done < status.get("startTime", ""):
        _refuse(job, "status.completionTime: must be equal to or after `startTime`")


def _true(status: dict[str, Any]) -> set[str]:
    return {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}


def _refuse(job: Json, why: str) -> None:
    name = job["metadata"]["name"]
    raise Refused(422, "Invalid", f'Job.batch "{name}" is invalid: {why}')
