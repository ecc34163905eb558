"""The texts of designers and agents: prompts, conversations, actions, and their tokens."""
