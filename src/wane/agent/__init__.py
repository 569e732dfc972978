"""The coding agent, built on Pydantic AI, its harness and Wane. Needs the `agent` extra."""
