"""One module per job kind: pod sets, suspend, injection and restore, status, finished.

Contract: functions over plain JSON objects; no I/O.
"""
