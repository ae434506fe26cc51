"""What is said of settings in the environment that cannot be used."""

from __future__ import annotations

from pydantic import ValidationError

PREFIX = "FEDQ_"


def complaint(error: ValidationError) -> str:
    """Each variable, what is wrong with it, and what stands there; in one line."""
    found = []
    for problem in error.errors():
        name = PREFIX + str(problem["loc"][0]).upper()
        unset = problem["type"] == "missing" or problem["input"] in ("", None)
        given = "" if unset else f", not {problem['input']!r}"
        found.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}{given}")
    return "; ".join(found)
