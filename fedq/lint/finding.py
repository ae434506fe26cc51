"""What a rule says about an object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from federation.api.problems import Path
from federation.edge.documents import Document

if TYPE_CHECKING:
    from fedq.lint.world import World

Json = dict[str, Any]


class Severity(StrEnum):
    """REFUSED: the API server or Fedq will not take it; WARNING: it will not do what people
    expect; INFO: good to know, not a reason to stop.
    """

    REFUSED = "refused"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, eq=False)
class Thing:
    """An object as it was given: `raw` as it is written, `body` in v1beta2's spelling
    and without what is null.

    `document` is None if a cluster has it. Two things are the same only if they are one.
    """

    body: Json
    source: str
    line: int = 0
    raw: Json = field(default_factory=dict, repr=False)
    document: Document | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """Its kind; '' if it says none."""
        return str(self.body.get("kind") or "")

    @property
    def group(self) -> str:
        """Its API group; '' is the core group."""
        return str(self.body.get("apiVersion") or "").rpartition("/")[0]

    @property
    def meta(self) -> Json:
        """Its metadata; empty if it has none."""
        meta = self.body.get("metadata")
        return meta if isinstance(meta, dict) else {}

    @property
    def name(self) -> str:
        """Its name, or the prefix of the name to be generated."""
        return str(self.meta.get("name") or self.meta.get("generateName") or "")

    @property
    def namespace(self) -> str:
        """Its namespace, `default` when it names none; only for namespaced kinds."""
        return str(self.meta.get("namespace") or "default")

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        return self.meta.get("labels") or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return self.meta.get("annotations") or {}

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else self.kind or "document"

    def line_of(self, path: Path) -> int:
        """The line of a field in its file."""
        return self.document.line_of(path) if self.document else self.line


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a thing: what is so, and what to do. `severity` overrides the rule's."""

    thing: Thing
    message: str
    todo: str
    path: Path = ()
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by its id, which people see and silence it by. Without `check` it is told while the
    files are read.
    """

    id: str
    severity: Severity
    check: Callable[[World], Iterable[Finding]] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A finding as it is reported."""

    file: str
    line: int
    object: str
    rule: str
    severity: Severity
    message: str
    todo: str
    field: str = ""
