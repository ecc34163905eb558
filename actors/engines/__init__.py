"""Engines sample tokens. `base` is the interface, `torch` our engine, `foreign` other engines, `server` the process."""
