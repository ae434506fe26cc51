"""Policies of a management cluster that also runs jobs itself: whose a job is.

The LocalQueues whose jobs run there have a label, which the manager keeps. A job gets it when it is
created in one of them, and keeps it: manager and agent each follow their own by it.
"""

from __future__ import annotations

from federation.api.kinds.paths import Path
from federation.api.kinds.row import MANAGED_BY
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.api.names import KUEUE_API, Controller, Label
from federation.api.policies.build import (
    CREATE,
    IS_FEDQ,
    IS_LOCAL,
    MANAGED_NAMESPACES,
    QUEUED,
    UPDATE,
    Documents,
    check,
    jobs,
    json_patch,
    kueue,
    mutating,
    only_if,
    validating,
)
from federation.api.policies.kinds import ITS_OWN, at, has, rules

_LABEL = f"'/metadata/labels/' + jsonpatch.escapeKey('{Label.LOCAL}')"
MARK = f"[JSONPatch{{op: 'add', path: {_LABEL}, value: 'true'}}]"
"""CEL: the patch that gives a job with labels to the agent."""


def local_jobs() -> Documents:
    """batch/v1 Jobs."""
    return _mark("fedq-local-jobs", jobs(CREATE)["resourceRules"], MANAGED_BY)


def local_kinds() -> dict[str, Documents]:
    """All other kinds that an agent holds back until it has admitted them; those that nothing holds
    back stay the manager's.
    """
    found: dict[Path, str] = {}
    for row in ROWS:
        found.setdefault(row.managed_by, row.kind.lower())
    return {
        f"local-{name}": _mark(
            f"fedq-local-{name}",
            rules([row for row in ROWS if row.managed_by == path], CREATE),
            path,
        )
        for path, name in found.items()
    }


def local_pods() -> Documents:
    """Pods."""
    return _mark("fedq-local-pods", rules([PODS], CREATE), (), only_if("its-own", ITS_OWN))


def _mark(
    name: str, matched: Documents, managed_by: Path, more: Documents | None = None
) -> Documents:
    """What is created in a LocalQueue with the label gets the label, and loses the `managedBy` that
    would send it elsewhere: that policy may have looked at it before this one. Each LocalQueue with
    the label is a parameter; without a namespace in the reference, those of the job's namespace.
    """
    queue = f"object.metadata.labels['{Label.QUEUE_NAME}']"
    patch, done = MARK, IS_LOCAL
    if managed_by:
        ours = f"{has(managed_by)} && {at(managed_by)} == '{Controller.MULTIKUEUE}'"
        remove = f"[JSONPatch{{op: 'remove', path: '/{'/'.join(managed_by)}'}}]"
        patch += f" + ({ours} ? {remove} : [])"
        done += f" && !({ours})"
    return mutating(
        name,
        {
            "matchPolicy": "Exact",
            "resourceRules": matched,
            "namespaceSelector": MANAGED_NAMESPACES,
        },
        only_if("queued", QUEUED) + (more or []) + only_if("not-done", f"!({done})"),
        [json_patch(f"params.metadata.name == {queue} ? {patch} : []")],
        params={"apiVersion": KUEUE_API, "kind": "LocalQueue"},
        binding={
            "paramRef": {
                "selector": {"matchLabels": {Label.LOCAL.value: "true"}},
                "parameterNotFoundAction": "Allow",
            }
        },
    )


def fixed() -> Documents:
    """Whose a job is, and its Workload, is settled when it is created: what changed hands could be
    run by both.
    """
    match = jobs(UPDATE)
    match["resourceRules"] += rules((*ROWS, *SCALED, PODS), UPDATE)
    match["resourceRules"] += kueue("workloads", UPDATE)["resourceRules"]
    new, old = (
        f"{node}.metadata.?labels[?'{Label.LOCAL}'].orValue('')" for node in ("object", "oldObject")
    )
    return validating(
        "fedq-local-fixed",
        match,
        only_if("changed", f"{new} != {old}"),
        [
            check(
                "false",
                f"the label {Label.LOCAL} says whether the job runs on this cluster, and is never"
                " changed: delete the job and create it again",
                "Forbidden",
            )
        ],
    )


def started() -> Documents:
    """A local Job is started by the agent. It has no `managedBy` that keeps it from running here,
    and the label can be written by who creates it, whether or not there is an agent.
    """
    waits = "has({node}.spec.suspend) && {node}.spec.suspend"
    old, new = waits.format(node="oldObject"), waits.format(node="object")
    return validating(
        "fedq-local-started",
        jobs(UPDATE),
        only_if("starts", f"{IS_LOCAL} && {old} && !({new})"),
        [
            check(
                IS_FEDQ,
                f"a Job with the label {Label.LOCAL} is started by Fedq's agent when its queue has"
                " quota for it: leave spec.suspend as it is",
                "Forbidden",
            )
        ],
    )
