"""The models of a learner: loaded, adapted, made ready for packed rows."""
