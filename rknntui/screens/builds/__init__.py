"""The workspace Builds."""
