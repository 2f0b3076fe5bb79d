"""The messages, one file per API, with its version notes.

A file is imported when its API is first used: some three hundred dataclasses would make a slow start.
"""
