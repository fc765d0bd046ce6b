"""What runs inside the user's training script; imports no framework."""
