"""The command, against the fake API server."""
