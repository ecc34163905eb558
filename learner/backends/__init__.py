"""What does the arithmetic of a learner step: one module for each way of running it."""
