"""What several algorithms do to weights, biases and ranges."""
