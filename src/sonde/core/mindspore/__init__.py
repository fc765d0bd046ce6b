"""What MindSpore's documents use in programs: names that are absent here, settings that are not."""
