"""The closed loop: the real agent, over a real wire, at work on many tasks in one session with a scripted model.

The model is a script and not a language model: what is shown is what a strategy leaves for a model to see, not how
well a model works with it. `docs/lab/closed-loop.md` says what is done and what came of it.
"""
