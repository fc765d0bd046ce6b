"""Fakes and contract suites for those who write plug-ins for Sonde; used by its own tests."""
