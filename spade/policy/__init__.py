"""The policy itself, in torch: loading and publishing checkpoints, and what it samples from."""
