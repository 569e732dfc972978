"""The scripted agent: the real agent at real work, with a script in the model's place, in two scenarios.

`demo` is ten tasks in a small window, to watch. `closed_loop` is many tasks in one session, to measure. This folder
holds their common parts: the script's reading of a request (`sight`), its calls (`calls`), its summaries (`summary`),
the repository (`repository`), and the counts (`witness`). In each, `mind` decides from what `sight`
finds in a request, and `play` is a run.
"""
