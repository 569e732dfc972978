"""The scripted agent: the real agent at real work, with a script in the model's place.

`demo` is a run of it to watch. This folder holds what another run could share: the script's reading of a request
(`sight`), its calls (`calls`), its summaries (`summary`), the repository (`repository`), and the counts (`witness`). In
a run, `mind` decides from what is in view, and `play` is the run itself.
"""
