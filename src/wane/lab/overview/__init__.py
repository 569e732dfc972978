"""What the agents on this machine cost and lost in the last days: the figures of `wane report`.

`figures` takes them from one session, `gathering` from all files, of which it reads only those that changed, and
`summary` adds them up.
"""
