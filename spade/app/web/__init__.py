"""The live page of runs: a read-only observer that serves pages to browsers.

`following` reads the runs again and again. `server` answers browsers. Every page is HTML, made from a template and from
parts of the report. The only script of the pages loads a page again when the server says that a run has changed.
"""
