"""The workspaces, imported on first visit, and the dialogs."""
