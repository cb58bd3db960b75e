"""The workspace Configure."""
