"""Text for people: numbers, names of others on a terminal, regular expressions of users."""
