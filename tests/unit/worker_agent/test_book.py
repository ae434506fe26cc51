"""What the agent knows of Jobs, told by the watch."""

from __future__ import annotations

import pytest

from federation.jobs.containers import NO_DEFAULTS
from tests.unit.worker_agent.support import job
from worker_agent.book import Book, RestoredError


def test_versions_that_go_back_end_the_agent() -> None:
    """The store was restored from a backup: Jobs that are there again would be taken for gone."""
    book = Book(lambda uid: None, lambda namespace: NO_DEFAULTS)
    book.on_list([], "100")
    book.on_list([], "100")
    with pytest.raises(RestoredError, match="restored from a backup"):
        book.on_list([job("j")], "90")
