"""The workspace Accuracy."""
