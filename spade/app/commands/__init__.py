"""A command is one file: its options, its work and what it prints; heavy modules are imported where the work begins."""
