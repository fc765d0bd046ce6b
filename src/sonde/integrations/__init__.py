"""Sonde in the frameworks and trackers that programs use already; see ``docs/integrations.md``.

One module for each library, imported only when a program or a command asks for it.
"""
