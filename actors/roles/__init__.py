"""The processes that design, curate, play and evaluate, and the work on jobs that they share."""
