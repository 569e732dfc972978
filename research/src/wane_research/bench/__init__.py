"""The public benchmark without a model: strategies over recordings that anyone can fetch (research/docs/bench.md)."""
