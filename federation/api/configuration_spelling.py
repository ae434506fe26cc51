"""Old and invented spellings of a Configuration to the one that the model reads.

Kueue's own format has its sections at the top. Articles write them below `spec`, some below
`spec.controllerConfig`, call the kind KueueConfiguration and the switch `enabled`; all of that is
read, and told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from federation.api.problems import Path, Problem

Json = dict[str, Any]

CONFIG_GROUP: Final = "config.kueue.x-k8s.io"
_VERSIONS: Final = ("v1beta1", "v1beta2")
_GROUPS: Final = (CONFIG_GROUP, "kueue.x-k8s.io")
_ENVELOPE: Final = ("apiVersion", "kind", "metadata")
_SWITCHES: Final = ("waitForPodsReady", "fairSharing", "internalCertManagement")


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about a field that does not stop its use.

    `mild`: only another way to write it. `unknown`: nothing reads it.
    """

    path: Path
    message: str
    mild: bool = False
    unknown: bool = False

    def __str__(self) -> str:
        return str(Problem(self.path, self.message))


@dataclass(slots=True)
class Flat:
    """A Configuration with its sections at the top; `home` is where in the file each one stood."""

    body: Json = field(default_factory=dict)
    home: dict[str, Path] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def flatten(obj: Json) -> Flat:
    """Pure: the input is not changed."""
    flat = Flat()
    _header(obj, flat)
    _section(obj, (), flat)
    for name in _SWITCHES:
        section = flat.body.get(name)
        if isinstance(section, dict) and "enabled" in section:
            path = (*flat.home[name], name, "enabled")
            flat.notices.append(Notice(path, "deprecated spelling; Kueue writes enable"))
            rest = {k: v for k, v in section.items() if k != "enabled"}
            flat.body[name] = {"enable": section["enabled"], **rest}
    return flat


def _header(obj: Json, flat: Flat) -> None:
    kind = obj.get("kind")
    if kind == "KueueConfiguration":
        flat.notices.append(Notice(("kind",), "deprecated spelling; Kueue writes Configuration"))
    elif kind != "Configuration":
        flat.problems.append(Problem(("kind",), f"{kind!r}: it must be Configuration"))
    group, _, version = str(obj.get("apiVersion", "")).partition("/")
    if group not in _GROUPS or version not in _VERSIONS:
        message = f"{obj.get('apiVersion')!r}: it must be {CONFIG_GROUP}/v1beta2 (or /v1beta1)"
        flat.problems.append(Problem(("apiVersion",), message))
    elif group != CONFIG_GROUP:
        message = f"Kueue's own group is {CONFIG_GROUP}/{version}; both are read"
        flat.notices.append(Notice(("apiVersion",), message, mild=True))
    flat.body |= {"apiVersion": f"{CONFIG_GROUP}/{version}", "kind": "Configuration"}
    if obj.get("metadata") is not None:
        flat.body["metadata"] = obj["metadata"]


def _section(part: Json, path: Path, flat: Flat) -> None:
    """Move the sections of `part` to the top; those inside an envelope of an article too."""
    inner = "" if len(path) > 1 else "controllerConfig" if path else "spec"
    for name, value in part.items():
        if not path and name in _ENVELOPE:
            continue
        if name == inner:
            _inner(value, (*path, name), flat)
        elif name == "queueingStrategy":
            message = "it has no effect here: set spec.queueingStrategy of each ClusterQueue"
            flat.notices.append(Notice((*path, name), message, unknown=True))
        elif name in flat.body:
            message = f"it is also in {'.'.join(map(str, flat.home.get(name, ()))) or 'the top'}"
            flat.problems.append(Problem((*path, name), f"{message}; keep one of the two"))
        elif value is not None:
            flat.body[name], flat.home[name] = value, path


def _inner(value: Any, path: Path, flat: Flat) -> None:
    if isinstance(value, dict):
        message = "Kueue's format has these fields at the top; both are read"
        flat.notices.append(Notice(path, message, mild=True))
        _section(value, path, flat)
    elif value is not None:
        flat.problems.append(Problem(path, "a mapping (key: value) is expected"))
