"""The workspace Hybrid."""
