"""The part that runs inside the user's training script; imports no framework."""
