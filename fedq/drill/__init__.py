"""Drills: real faults on a rig, and a verdict from what the jobs saw themselves."""
