"""Engines sample tokens: `base` is what all offer, `torch` our own, `foreign` those of others, `server` the process."""
