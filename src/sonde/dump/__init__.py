"""The on-disk format: names, sinks, graph files and the reader."""
