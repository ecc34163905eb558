"""Make an HTML page about runs. `collect` reads the runs, `page` fills the template, and other modules do no I/O.

All text of the page, including text of models, passes through `page.make_showable` and the template's escaping.
"""
