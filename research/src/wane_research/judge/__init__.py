"""A small language model as judge: how likely it holds the recorded next call, given the view of each strategy."""
