"""A page about runs. `series` and `arms` are the pure core, `drawing` the geometry, `page` the shell around a template.

All text of the page, including text of models, passes through `page.make_showable` and the template's escaping.
"""
