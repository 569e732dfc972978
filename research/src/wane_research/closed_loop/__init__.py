"""The closed loop: the real agent, over a real wire, at work on many tasks in one session with a scripted model.

The model is a script, not a language model: the figures show what a strategy leaves for a model to see, not how well a
model works with it. `research/docs/closed-loop.md` describes the method and the results.
"""
