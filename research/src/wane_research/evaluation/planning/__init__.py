"""Before the first call: what an evaluation would cost, how many runs it needs, and whether it can run here."""
