"""The workspace Chips."""
