"""The pytest plugin: what pytest is told at its start. It imports nothing heavy: every start of pytest pays for it."""
