"""The scripted agent: the real agent at real work, with a script in the model's place, in two scenarios.

`demo` is ten tasks in a small window, to watch. `closed_loop` is many tasks in one session, to measure. What both share
is here: what the script sees of a request (`sight`), the calls that it makes (`calls`), the summary that it writes
(`summary`), the repository (`repository`), and what is counted (`witness`). In each, `mind` decides from what `sight`
finds in a request, and `play` is a run.
"""
