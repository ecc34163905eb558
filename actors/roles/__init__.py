"""The processes that design, play and evaluate, and the parts they share."""
