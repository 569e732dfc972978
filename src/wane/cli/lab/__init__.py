"""The commands that read recorded sessions: plan, view, replay, sweep, tune and the group `lab`."""
