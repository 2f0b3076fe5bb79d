"""The messages, one file per API, with its version notes.

A file is imported when its API is first used: three hundred dataclasses would slow down the start.
"""
