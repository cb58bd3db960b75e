"""The chips of toolkit generation 1, whose NPU is another: a time and memory model of their own."""
