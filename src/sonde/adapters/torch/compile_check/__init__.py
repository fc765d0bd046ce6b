"""One step of a program run eagerly, interpreted, compiled and in float64, and compared."""
