"""Workspace Deploy: what an NPU runs, and the toolkits, files and projects around it."""
