"""The policy: its folder and manifest, without torch. Its model and sampling probabilities, in torch."""
