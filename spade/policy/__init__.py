"""The policy: its folder and manifest, without torch; in torch, its model and the probabilities it samples from."""
