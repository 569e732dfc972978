"""The coding agent: Pydantic AI and its harness for the parts, Wane for the context. Needs the `agent` extra."""
