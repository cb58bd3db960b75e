"""A model on a board, from this machine's side: the agent is sent, started and asked."""
