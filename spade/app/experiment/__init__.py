"""Experiments: a grid of recipes and seeds, run in pieces, and what its results come to.

`plan` reads the file, `results` keeps what a run came to, `analysis` compares arms (all pure), `pieces` and `grid` run
commands of `spade` in a `workplace`, `page` shows the results.
"""
