"""Before the first call: the cost of an evaluation, the number of runs that it needs, and whether it can run here."""
