"""docs/kinds.md has the table of kinds as it is."""

from __future__ import annotations

from pathlib import Path

from federation.jobs.kinds.registry import KINDS
from fedq.kindview import kind_views, markdown

PAGE = Path(__file__).parents[3] / "docs" / "kinds.md"


def test_the_page_has_the_table() -> None:
    """After a change: replace the table by what `fedq.kindview.markdown` says."""
    assert markdown(kind_views(KINDS)) in PAGE.read_text(encoding="utf-8")
