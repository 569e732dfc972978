"""The research around Wane: benchmarks of the agent on Harbor, the closed loop, and checks of the lab's simulations."""
