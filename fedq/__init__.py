"""The operator's command: rig, submit, get, why, demo."""
