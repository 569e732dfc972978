"""The common parts of OpenAI's two protocols."""
