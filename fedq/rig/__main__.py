"""`python -m fedq.rig`: the rig's commands without the rest of fedq."""

from fedq.rig.cli import app

app(prog_name="python -m fedq.rig")
