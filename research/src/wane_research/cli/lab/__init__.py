"""The group `lab`: the closed loop, and checks of the lab's simulations and of agents' marks."""
