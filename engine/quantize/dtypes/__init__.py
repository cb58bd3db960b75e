"""Number formats as data, and which scheme of them a quantized dtype is."""
