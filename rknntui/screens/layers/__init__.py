"""The workspace Layers."""
