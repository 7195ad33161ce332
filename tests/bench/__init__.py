"""Figures with goals: requests, latencies, memory. `python -m tests.bench` prints them and writes build/bench.json."""
