"""The processes that design, play and evaluate, and what they share."""
