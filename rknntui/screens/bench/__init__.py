"""The workspace Devices."""
