"""The workspace Result."""
