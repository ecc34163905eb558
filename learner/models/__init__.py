"""The models of a learner: load them, add adapters, prepare them for packed rows."""
