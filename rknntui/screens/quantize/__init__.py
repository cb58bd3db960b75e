"""The workspace Quantize."""
