"""What is captured, when, and for whom."""
