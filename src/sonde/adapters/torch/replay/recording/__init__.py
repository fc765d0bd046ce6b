"""The parts of the recorder of steps: what it watches, and how it keeps what it sees."""
