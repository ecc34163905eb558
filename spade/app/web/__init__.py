"""The live page of runs: a read-only observer that serves pages to browsers.

`following` reads the runs again and again. `server` answers browsers. Every page is HTML from a template, with the
fragments of the report. The one script of the pages asks for a page again when the server says that the runs changed.
"""
