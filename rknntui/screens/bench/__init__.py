"""The workspace Bench: boards, and the model on them."""
