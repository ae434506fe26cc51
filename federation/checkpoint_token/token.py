"""The token of a job: which attempt holds it, and what was committed. One object, changed by
compare-and-swap only.

Data is written first, under a name that nobody else writes; a commit then makes it visible. Between
the two nothing has happened yet. A commit reads the state, finds that no later attempt has claimed
the token, and replaces exactly the state that it has read: whatever was claimed meanwhile makes
that fail, and it looks again. So there is no moment between check and act.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from federation.checkpoint_token.errors import RefusedError, StoreError

NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
TRIES: Final = 200
"""How often a change is made anew because somebody else was first. Each time somebody was."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What counts under one name. `location` is where the store has it, `digest` its SHA-256 (empty
    for what was stored by other means); `mark` tells this commit from all others.
    """

    attempt: int
    location: str
    digest: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """`attempt` is the highest that has claimed the token, 0 if none has."""

    attempt: int = 0
    commits: Mapping[str, Commit] = field(default_factory=dict)

    def text(self) -> bytes:
        """As stored."""
        commits = {
            name: {"attempt": c.attempt, "location": c.location, "sha256": c.digest, "mark": c.mark}
            for name, c in self.commits.items()
        }
        return json.dumps({"attempt": self.attempt, "commits": commits}, indent=1).encode()

    @classmethod
    def read(cls, text: bytes) -> State:
        """From what is stored. Raises StoreError."""
        try:
            body = json.loads(text)
            commits = {
                name: Commit(int(c["attempt"]), c["location"], c["sha256"], c["mark"])
                for name, c in body["commits"].items()
            }
            return cls(int(body["attempt"]), commits)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"the token cannot be read: {error!r}") from error


class Store(Protocol):
    """Where one job keeps its token and its data. All methods raise StoreError."""

    def read(self) -> tuple[State, Any]:
        """The state (an empty one if there is none yet), and its version for `swap`."""

    def swap(self, state: State, version: Any) -> bool:
        """Replace the state if it is still in that version. False: it is not, nothing changed."""

    def put(self, name: str, source: Path) -> str:
        """Store a file under a name that was never used before; its location."""

    def get(self, location: str, target: Path) -> None:
        """Fetch what is at a location; the file is replaced as a whole."""

    def drop(self, location: str) -> None:
        """Remove what `put` has stored."""

    def check(self) -> None:
        """Find out whether `swap` can be relied on. Raises ConditionsIgnoredError."""


class Token:
    """What one attempt of a job does with its store.

    Attempts are whole numbers from 1; the pods of one attempt share it and do not fence each other.
    """

    def __init__(self, store: Store, attempt: int) -> None:
        if attempt < 1:
            raise ValueError(f"attempts are numbered from 1, not {attempt}")
        self._store, self.attempt = store, attempt

    def claim(self) -> State:
        """Make this the attempt that counts: lower ones can commit nothing from now on. Do it
        before anything is read. Raises RefusedError if a later one has.
        """
        self._store.check()

        def claimed(state: State) -> State:
            self._fence(state)
            return replace(state, attempt=self.attempt)

        return self._change(claimed)

    def state(self) -> State:
        """Which attempt counts, and what was committed."""
        return self._store.read()[0]

    def put(self, name: str, source: Path, *, first: bool = False) -> Commit:
        """Store a file and commit it; what it replaces is removed. Raises RefusedError, as early as
        that is known.
        """
        self._allow(self.state(), _checked(name), first=first)
        digest = _digest(source)
        location = self._store.put(name, source)
        try:
            return self.commit(name, location, digest, first=first)
        except RefusedError:
            self._drop(location)
            raise

    def commit(self, name: str, location: str, digest: str = "", *, first: bool = False) -> Commit:
        """Make what is at a location count under a name.

        With `first` whichever attempt is the first to commit the name wins, and the token is not
        asked: for jobs that may run twice. Raises RefusedError.
        """
        made = Commit(self.attempt, location, digest, uuid.uuid4().hex)
        replaced: Commit | None = None
        _checked(name)

        def committed(state: State) -> State:
            nonlocal replaced
            known = state.commits.get(name)
            if known is not None and known.mark == made.mark:
                return state  # it was stored, and only the answer was lost
            self._allow(state, name, first=first)
            replaced = known
            highest = state.attempt if first else self.attempt
            return State(highest, {**state.commits, name: made})

        self._change(committed)
        if replaced is not None and replaced.digest:
            self._drop(replaced.location)
        return made

    def get(self, name: str, target: Path) -> Commit | None:
        """Fetch what counts under a name; None if there is nothing."""
        found = self.state().commits.get(name)
        while found is not None:
            if not found.digest:
                raise StoreError(
                    f"{name!r} was stored by other means: fetch it at {found.location}"
                )
            try:
                self._store.get(found.location, target)
                break
            except StoreError:
                before, found = found, self.state().commits.get(name)
                if found == before:  # else it was replaced, and removed, just now
                    raise
        if found is not None and _digest(target) != found.digest:
            target.unlink()
            raise StoreError(f"{found.location} is not what was stored as {name!r}")
        return found

    def _drop(self, location: str) -> None:
        """What stays behind takes room, and does no harm."""
        with suppress(StoreError):
            self._store.drop(location)

    def _fence(self, state: State) -> None:
        if state.attempt > self.attempt:
            raise RefusedError(
                f"attempt {state.attempt} of this job holds the token: attempt {self.attempt} is"
                " over, and should stop",
                state.attempt,
            )

    def _allow(self, state: State, name: str, *, first: bool) -> None:
        if not first:
            self._fence(state)
        elif name in state.commits and state.commits[name].attempt != self.attempt:
            holder = state.commits[name].attempt
            raise RefusedError(f"attempt {holder} was the first to store {name!r}", holder)

    def _change(self, change: Callable[[State], State]) -> State:
        for _ in range(TRIES):
            state, version = self._store.read()
            wanted = change(state)
            if wanted == state or self._store.swap(wanted, version):
                return wanted
        raise StoreError(f"the token was changed by others {TRIES} times in a row")


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise StoreError(f"{name!r} is no name: letters, digits and ._- without a dot in front")
    return name


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
