"""The language of both roles: prompts, conversations, actions, and their tokens."""
