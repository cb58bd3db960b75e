"""What is known of the open model, step by step, and what to do next."""
