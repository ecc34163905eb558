"""The groups of commands below `spade`, a module for those that belong together."""
