"""Ways to keep a context within a budget, behind one interface: Wane's own, and those it is compared with."""
