"""Modules that are copied into an exported package. So the package does not import the command line, `spade.app`."""
