"""The workspace Model."""
