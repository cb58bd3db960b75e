"""What all workspaces are made of."""
