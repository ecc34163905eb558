"""Engines sample tokens: `base` is what all offer, `torch` the embedded one, `server` the process around one."""
