"""What the workbench knows: the session, its messages, its jobs, and what is kept of it."""
