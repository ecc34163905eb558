"""Measures of programs, from their text alone: of one program, and of many together."""
