"""Which tensors are quantized, in which dtype, and which share their parameters."""
