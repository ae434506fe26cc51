"""Policy about pods on a worker: what was noted of their cards is not changed by others.

The ledger of cards counts what pods were given by these notes, and device plugins have handed out
cards by them: a running pod that is noted to have less than it has would be counted for less.
"""

from federation.api.names import Gate, Pin
from federation.api.policies.build import (
    IS_FEDQ,
    UPDATE,
    Documents,
    check,
    only_if,
    pods,
    validating,
)

_IS_PLUGIN = "authorizer.group('').resource('nodes').check('patch').allowed()"
"""CEL: the user may `patch` nodes, as HAMi's scheduler and device plugins do and no tenant may."""

_EXACT = ("vgpu-node", "vgpu-time", "vgpu-mig-allocations", "bind-phase", "bind-time")
_ENDINGS = ("allocated", "-to-allocate")
_IS_NOTE = (
    f"(k == '{Pin.SEAT}' || (k.startsWith('hami.io/') && ("
    + " || ".join(f"k.endsWith('{ending}')" for ending in _ENDINGS)
    + f" || k in [{', '.join(repr(f'hami.io/{name}') for name in _EXACT)}])))"
)
"""CEL over a key `k`: it says which cards a pod has."""

_OLD = "has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {}"
_NEW = "has(object.metadata.annotations) ? object.metadata.annotations : {}"
_WAITS = "{node}.spec.schedulingGates.exists(g, g.name == '" + Gate.DEVICES + "')"


def _waits(node: str) -> str:
    return f"(has({node}.spec.schedulingGates) && {_WAITS.format(node=node)})"


def card_notes() -> Documents:
    """Only the agent, and HAMi's own programs, change which cards a pod has, or let it go to them.

    Pods may be made with such notes: they count for nothing in pods of the queue, and those of
    others have what their scheduler writes.
    """
    same = (
        f"variables.new.all(k, !{_IS_NOTE} || (k in variables.old && "
        "variables.new[k] == variables.old[k])) && "
        f"variables.old.all(k, !{_IS_NOTE} || k in variables.new)"
    )
    about = f"variables.old.exists(k, {_IS_NOTE}) || variables.new.exists(k, {_IS_NOTE})"
    about = about.replace("variables.old", f"({_OLD})").replace("variables.new", f"({_NEW})")
    return validating(
        "fedq-card-notes",
        pods(UPDATE),
        only_if("of-cards", f"{about} || {_waits('oldObject')}"),
        [
            check(
                f"({same}) || {IS_FEDQ} || {_IS_PLUGIN}",
                f"only Fedq and HAMi may change {Pin.SEAT} and the hami.io/ notes of a pod's cards",
                "Forbidden",
            ),
            check(
                f"!{_waits('oldObject')} || {_waits('object')} || {IS_FEDQ}",
                f"only Fedq may remove the scheduling gate {Gate.DEVICES}: it has no cards yet",
                "Forbidden",
            ),
        ],
        variables=[{"name": "old", "expression": _OLD}, {"name": "new", "expression": _NEW}],
    )
