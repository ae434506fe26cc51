"""The kinds of jobs: batch/v1 Job as it stands, all others by one adapter that reads a table.

Contract: functions over plain JSON objects; no I/O. `registry` has all that are known; the table is
`federation.api.kinds.table`.
"""
