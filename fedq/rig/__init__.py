"""Real control planes on this machine, or in kind, for demos, tests and drills."""
