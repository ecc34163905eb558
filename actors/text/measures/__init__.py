"""Measure programs by their text alone: one program, or the diversity of many programs."""
