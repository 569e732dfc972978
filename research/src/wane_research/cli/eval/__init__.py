"""The group `eval`: benchmarks run, gone on with and reported."""
