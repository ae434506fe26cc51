"""Policies about Jobs: queued ones start suspended, and marks of mirrored ones are genuine."""

from federation.api.kinds.parts import is_part_cel
from federation.api.kinds.row import Row
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.api.names import FEDQ_NAMESPACE, JOB_CONTROLLER, Label, Mirror, Option
from federation.api.policies.build import (
    CREATE,
    IS_FEDQ,
    IS_LOCAL,
    MANAGED_NAMESPACES,
    QUEUED,
    WRITES,
    Documents,
    Json,
    check,
    config_map,
    jobs,
    json_patch,
    mutating,
    only_if,
    validating,
)
from federation.api.policies.kinds import rules

EPOCH_CONFIG_MAP = "fedq-epoch"
"""ConfigMap in `fedq-system` on a worker: `data.epoch` is the lowest epoch that may be written."""

_PARTS = ("labels", "annotations")


def queue_jobs(managed_by: str | None) -> Documents:
    """A Job with a queue name starts suspended.

    On the management cluster it also gets `managedBy`, so that no controller there runs it; a Job
    that somebody else manages keeps its manager, and so does one of the agent beside ours.
    """
    wanted = ["has(object.spec.suspend) && object.spec.suspend"]
    patch = "[JSONPatch{op: 'add', path: '/spec/suspend', value: true}]"
    if managed_by:
        ours = (
            f"(!has(object.spec.managedBy) || object.spec.managedBy == '{JOB_CONTROLLER}') && "
            f"!{IS_LOCAL}"
        )
        wanted.append(f"!({ours})")
        patch += (
            f" + ({ours} ? [JSONPatch{{op: 'add', path: '/spec/managedBy', "
            f"value: '{managed_by}'}}] : [])"
        )
    done = " && ".join(wanted)
    return mutating(
        "fedq-queue-jobs",
        jobs(CREATE, MANAGED_NAMESPACES),
        only_if("queued", QUEUED) + only_if("not-done", f"!({done})"),
        [json_patch(patch)],
    )


def require_queue() -> Documents:
    """Jobs without a queue name are refused in namespaces that ask for it by label."""
    return validating(
        "fedq-require-queue",
        jobs(CREATE, {"matchLabels": {Label.REQUIRE_QUEUE: "true"}}),
        [],
        [
            check(
                QUEUED,
                f"this namespace takes only Jobs with the label {Label.QUEUE_NAME}",
                "Forbidden",
            )
        ],
    )


_OPTIONS = ", ".join(f"'{option}'" for option in Option)


def _is_mark(also: str = "false") -> str:
    return (
        f"(k == '{Label.MULTIKUEUE_ORIGIN}' || "
        f"(k.startsWith('fedq.io/') && k != '{Label.LOCAL}' && ({also} || !(k in [{_OPTIONS}]))))"
    )


_IS_MARK = _is_mark()
"""CEL over a key `k`: the origin label, or anything below `fedq.io/` but the options of users."""
_IS_KEPT = _is_mark("variables.is_copy")
"""On a copy the options are marks too: its agent stops it by what stands there, and its manager
runs it again by what it wrote there."""


def _is_marked(node: str) -> str:
    return " || ".join(
        f"(has({node}.metadata.{part}) && {node}.metadata.{part}.exists(k, {_IS_MARK}))"
        for part in _PARTS
    )


def _metadata_variables() -> Documents:
    """CEL variables new_labels, new_annotations, old_labels, old_annotations; empty if absent; and
    is_copy. What was a part of another job had none: nobody has looked at what it was made with.
    """
    whole = f"oldObject != null && !{is_part_cel('oldObject')} && "
    ages = (("new", "object", ""), ("old", "oldObject", whole))
    origin = f"'{Label.MULTIKUEUE_ORIGIN}' in variables"
    is_copy = {"name": "is_copy", "expression": f"{origin}.new_labels || {origin}.old_labels"}
    parts: Documents = [
        {
            "name": f"{age}_{part}",
            "expression": f"{guard}has({node}.metadata.{part}) ? {node}.metadata.{part} : {{}}",
        }
        for age, node, guard in ages
        for part in _PARTS
    ]
    return [*parts, is_copy]


def _all_kinds(*more: Row) -> Json:
    """Matches writes of Jobs and of all other kinds of jobs."""
    match = jobs(WRITES)
    return match | {
        "resourceRules": [*match["resourceRules"], *rules((*ROWS, *SCALED, *more), WRITES)]
    }


def no_forgery(*, local: bool = False) -> Documents:
    """Only the mirror and the agent may write the marks by which a mirrored Job is known, and what
    an agent has noted on it; on a management cluster, those of `local` jobs. Parts of a job may
    have those of the job: nobody looks at them.
    """
    unchanged = " && ".join(
        f"variables.new_{p}.all(k, !{_IS_KEPT} || (k in variables.old_{p} && "
        f"variables.new_{p}[k] == variables.old_{p}[k])) && "
        f"variables.old_{p}.all(k, !{_IS_KEPT} || k in variables.new_{p})"
        for p in _PARTS
    )
    message = (
        f"only Fedq may write the label {Label.MULTIKUEUE_ORIGIN} and fedq.io/ marks of a Job; "
        f"the options {', '.join(Option)} are free, but for those of a mirrored Job"
    )
    marked = f"{_is_marked('object')} || (oldObject != null && ({_is_marked('oldObject')}))"
    return validating(
        "fedq-no-forgery",
        _all_kinds(),
        (only_if("local", IS_LOCAL) if local else [])
        + only_if("whole", f"!{is_part_cel('object')}")
        + only_if("marked", marked),
        [check(f"({unchanged}) || {IS_FEDQ}", message, "Forbidden")],
        variables=_metadata_variables(),
    )


def epoch_fence() -> Documents:
    """A Job may not be mirrored, nor offered again, under an epoch that is over.

    Writes that leave the epoch of an existing Job alone pass: the agent must be able to stop old
    ones. Nothing is refused until the ConfigMap is there.
    """

    def epoch(node: str) -> str:
        return f"{node}.metadata.annotations['{Mirror.EPOCH}']"

    def has_epoch(node: str) -> str:
        return (
            f"has({node}.metadata.annotations) && '{Mirror.EPOCH}' in {node}.metadata.annotations"
        )

    changed = (
        f"{has_epoch('object')} && (oldObject == null || !({has_epoch('oldObject')}) || "
        f"{epoch('oldObject')} != {epoch('object')})"
    )
    return validating(
        "fedq-epoch",
        _all_kinds(PODS),
        only_if("new-epoch", changed),
        [
            check(
                "!has(params.data) || !('epoch' in params.data) || "
                f"int({epoch('object')}) >= int(params.data['epoch'])",
                f"the epoch in {Mirror.EPOCH} is over on this cluster",
                "Forbidden",
            )
        ],
        params={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={
            "paramRef": {
                "name": EPOCH_CONFIG_MAP,
                "namespace": FEDQ_NAMESPACE,
                "parameterNotFoundAction": "Allow",
            }
        },
    )


def epoch_rises() -> Documents:
    """The lowest epoch that may be written is a number, and nobody lowers it: not an agent that has
    slept through a fence either.
    """

    def number(node: str) -> str:
        return (
            f"has({node}.data) && 'epoch' in {node}.data && "
            f"{node}.data['epoch'].matches('^[0-9]{{1,9}}$')"
        )

    def epoch(node: str) -> str:
        return f"int({node}.data['epoch'])"

    rises = (
        f"oldObject == null || !({number('oldObject')}) || {epoch('object')} >= "
        f"{epoch('oldObject')}"
    )
    return validating(
        "fedq-epoch-rises",
        config_map(EPOCH_CONFIG_MAP, FEDQ_NAMESPACE),
        [],
        [
            check(f"({number('object')})", "data.epoch is a whole number of up to nine digits"),
            check(
                f"!({number('object')}) || {rises}",
                "data.epoch is never lowered: what was fenced stays fenced",
                "Forbidden",
            ),
        ],
    )
