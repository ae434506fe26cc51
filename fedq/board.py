"""Showing jobs while they move: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

import os
import sys
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedq.jobview import JobState, JobView

_STYLES = {
    JobState.RUNNING: "cyan",
    JobState.ADMITTED: "cyan",
    JobState.COMPLETE: "green",
    JobState.FAILED: "red",
    JobState.PENDING: "yellow",
    JobState.HELD: "yellow",
    JobState.LEAVING: "yellow",
}
_TELLING = (JobState.PENDING, JobState.LEAVING, JobState.FAILED)
_LATE = (JobState.COMPLETE, JobState.FAILED)


class Board:
    """Use it as a context manager and `show` the jobs as often as you like."""

    def __init__(self, title: str = "", *, err: bool = False) -> None:
        self._console = Console(stderr=err, highlight=False)
        dumb = os.environ.get("TERM") == "dumb"
        self._live = None
        if self._console.is_terminal and not dumb:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._stream = sys.stderr if err else sys.stdout
        self._title = title
        self._shown: dict[tuple[str, str], tuple[str, str, int, str]] = {}

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, views: list[JobView]) -> None:
        """Bring the table up to date, or print what changed since the last call."""
        if self._live:
            self._live.update(self._table(views), refresh=True)
            return
        for view in views:
            # The reason, not the message: its numbers change with every other job.
            reason = view.reason if view.state is JobState.PENDING else ""
            now = (view.state.value, view.cluster, view.attempt, reason)
            if self._shown.get(view.key) != now:
                self._shown[view.key] = now
                print(line(view), file=self._stream, flush=True)

    def _table(self, views: list[JobView]) -> Table:
        """As many rows as the terminal is high; jobs that have ended go first when it is short."""
        counts = Counter(view.state for view in views)
        caption = ", ".join(f"{counts[state]} {state}" for state in JobState if counts[state])
        table = Table(title=self._title or None, caption=caption, box=None, pad_edge=False)
        for heading in ("NAME", "QUEUE", "PRIORITY", "STATE", "CLUSTER", "WHY"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        room = max(3, self._console.size.height - 5)
        rows = views
        if len(rows) > room:
            rows = sorted(views, key=lambda view: view.state in _LATE)[:room]
        for view in rows:
            style = _STYLES.get(view.state, "")
            why = view.message if view.state in _TELLING else ""
            cells = (view.ref, view.queue, str(view.priority), view.state.value, _cluster(view))
            plain = [Text(cell) for cell in (*cells, why)]  # a message may look like markup
            plain[3].stylize(style)
            table.add_row(*plain)
        return table


def _cluster(view: JobView) -> str:
    again = f" (attempt {view.attempt})" if view.cluster and view.attempt > 1 else ""
    return f"{view.cluster}{again}"


def line(view: JobView) -> str:
    """One job in one line."""
    where = f" on {_cluster(view)}" if view.cluster else ""
    why = f": {view.message}" if view.message and view.state in _TELLING else ""
    return f"{view.title} {view.state}{where}{why}"
