"""Telling how far a Go build is, on a terminal (a bar) or in a log (a line now and then)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

INTERVAL = 20.0
"""Seconds between two lines where no terminal shows a bar."""


class BuildProgress:
    """Counts compiled packages against the expected total; 0 = unknown, no time left is shown."""

    def __init__(self, label: str, total: int, tell: Callable[[str], None]) -> None:
        self._label, self._total, self._tell = label, total, tell
        self._done = 0
        self._started = self._last = time.monotonic()
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(f"building {label}", total=total or None)

    def __enter__(self) -> BuildProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, line: str) -> None:
        """One line of `go build -v`: a package path, or a message of the compiler."""
        if not line or line.startswith(("#", "go: ")) or " " in line:
            return
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif time.monotonic() - self._last > INTERVAL:
            self._last = time.monotonic()
            self._tell(self.line(self._last - self._started))

    def line(self, elapsed: float) -> str:
        """The state of the build in one line; `elapsed` in seconds."""
        text = f"building {self._label}: {self._done} packages"
        if self._total <= 0:
            return f"{text}, {elapsed:.0f} s"
        if self._done >= self._total:
            return f"{text}, {elapsed:.0f} s, linking now"
        left = elapsed / self._done * (self._total - self._done) if self._done else 0.0
        return f"{text} of {self._total}, {elapsed:.0f} s, about {left:.0f} s left"
