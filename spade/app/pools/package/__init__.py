"""Modules that an export copies into its package, so that the package does not import `spade.app`."""
