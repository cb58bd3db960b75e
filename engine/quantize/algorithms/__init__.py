"""The quantization algorithms: from observations to ranges and weights."""
