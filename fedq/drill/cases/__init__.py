"""The drills, one small module each or one per family, and the table of them all (`table`).

To add one: write `async def NAME(ground: Ground) -> None` that submits jobs, makes its fault
inside `ground.cut(...)` or between `ground.strike()` and `ground.heal()`, waits for the end of the
jobs and states what it expects in `ground.expect`; then add a row to `table.DRILLS`. That no job is
lost, none is started twice and nothing overlaps is expected of every drill and need not be said.
"""
