"""Measure or serve a pinned policy by a small run that only samples."""
