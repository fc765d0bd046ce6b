"""A profile shown: in the terminal, as a page for a browser, as a trace for Perfetto."""
