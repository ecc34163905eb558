"""A pinned policy, measured or served by a small run of its own."""
