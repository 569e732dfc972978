"""Runs the agent's commands where the kernel lets them do no more than they may, and ends them with the agent.

`wall` says what a sandbox allows and which one this machine has; `filters` which system calls it refuses;
`supervisor` is the program that starts a command in it, and ends it.
"""
