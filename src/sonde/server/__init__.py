"""The server of the debugger: live runs, dumps on disk, and the page; needs ``sonde[debugger]``.

Importing this package imports nothing; ``app`` and ``serving`` import the web server.
"""
