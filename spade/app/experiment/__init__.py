"""Experiments: a grid of recipes and seeds, run in pieces, and the analysis of its results.

`plan` reads the file, `results` keeps the results of runs, `analysis` compares arms (pure). `pieces` and `grid` run
commands of `spade` in the `folder` of the experiment. `table` and `page` show the results.
"""
