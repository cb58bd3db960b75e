"""The workspace Recipe."""
