"""The group `eval`: runs, resumes and reports benchmarks."""
