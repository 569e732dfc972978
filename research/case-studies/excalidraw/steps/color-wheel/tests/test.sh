#!/bin/bash
# Writes the rewards of this step. What comes first holds if the checks cannot even run.
mkdir -p /logs/verifier
echo '{"reward": 0}' >/logs/verifier/reward.json
python3 /tests/check.py
