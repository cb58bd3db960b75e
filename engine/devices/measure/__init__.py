"""What boards measure: reports of the runtime, benchmarks, and the history of runs."""
