"""Jobs without a queue name go to the LocalQueue called `default`, where a namespace has one."""

from federation.api.names import DEFAULT_LOCAL_QUEUE, JOB_CONTROLLER, KUEUE_API, Label
from federation.api.policies.build import (
    CREATE,
    MANAGED_NAMESPACES,
    QUEUED,
    Documents,
    jobs,
    json_patch,
    mutating,
    only_if,
)
from federation.api.policies.local import MARK

_ON_ITS_OWN = (
    "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, "
    "!has(o.controller) || !o.controller || o.kind == 'CronJob')"
)
"""CEL: the Job is no part of something larger, which would be queued as a whole."""

_LOCAL_QUEUE = (
    f"has(params.metadata.labels) && '{Label.LOCAL}' in params.metadata.labels && "
    f"params.metadata.labels['{Label.LOCAL}'] == 'true'"
)
"""CEL: on a management cluster, the jobs of that queue run there."""


def default_queue(managed_by: str | None) -> Documents:
    """A Job without a queue name gets that of the namespace's default queue, and what a queued Job
    gets: another policy may have looked at it before this one.

    The queue is the parameter of the policy; without a namespace in its reference the API server
    takes it from that of the Job. A namespace without such a queue is not touched.
    """
    key = Label.QUEUE_NAME.value
    label = (
        "has(object.metadata.labels) "
        f"? [JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('{key}'), "
        f"value: '{DEFAULT_LOCAL_QUEUE}'}}] "
        ": [JSONPatch{op: 'add', path: '/metadata/labels', "
        f"value: {{'{key}': '{DEFAULT_LOCAL_QUEUE}'}}}}]"
    )
    patch = f"({label}) + [JSONPatch{{op: 'add', path: '/spec/suspend', value: true}}]"
    managers = [str(name) for name in (JOB_CONTROLLER, managed_by) if name]
    if managed_by:
        theirs = f"has(object.spec.managedBy) && object.spec.managedBy == '{managed_by}'"
        here = f"{MARK} + ({theirs} ? [JSONPatch{{op: 'remove', path: '/spec/managedBy'}}] : [])"
        there = f"[JSONPatch{{op: 'add', path: '/spec/managedBy', value: '{managed_by}'}}]"
        patch += f" + ({_LOCAL_QUEUE} ? {here} : {there})"
    ours = f"!has(object.spec.managedBy) || object.spec.managedBy in {managers}"
    return mutating(
        "fedq-default-queue",
        jobs(CREATE, MANAGED_NAMESPACES),
        only_if("without-queue", f"!({QUEUED})")
        + only_if("on-its-own", _ON_ITS_OWN)
        + only_if("not-managed-elsewhere", ours),
        [json_patch(patch)],
        params={"apiVersion": KUEUE_API, "kind": "LocalQueue"},
        binding={
            "paramRef": {"name": DEFAULT_LOCAL_QUEUE, "parameterNotFoundAction": "Allow"},
        },
    )
