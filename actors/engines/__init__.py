"""Engines sample tokens: `base` is their interface, `torch` ours, `foreign` those of others, `server` the process."""
