"""What is said to the model and what it answers: prompts, conversations, actions, and their tokens."""
