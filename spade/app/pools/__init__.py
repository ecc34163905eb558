"""Import pools of other people: read their programs, admit each one, and write the admitted ones as a pool."""
