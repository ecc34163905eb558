"""The admission of programs with tools, and random calls of their tools."""
