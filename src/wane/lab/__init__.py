"""The lab: recorded sessions replayed under every strategy, priced, and judged by the loss."""
