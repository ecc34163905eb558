"""A store looked at, beside its service or without it: read, verified, traced, exported, taken over."""
