"""The workspace Dataset."""
