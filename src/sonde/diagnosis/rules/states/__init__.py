"""Rules about states that are kept, loaded and saved, and about hooks."""
