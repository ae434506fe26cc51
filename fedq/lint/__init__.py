"""`fedq lint`: mistakes in manifests, before a cluster or a queue meets them.

Contract: `collect` and `cluster` read, everything else is pure. A rule looks at a `World` (all
objects of the files, and of a cluster if one was named) and yields findings about one thing; the
rules of a subject are in `rules_SUBJECT`, `engine` runs them, `report` prints.
"""
