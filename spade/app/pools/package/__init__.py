"""Modules that an exported package has. They are copied, so a package needs no part of the command line."""
