"""Admit programs with tools, and make random calls of their tools."""
