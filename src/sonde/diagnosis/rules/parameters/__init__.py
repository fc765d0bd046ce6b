"""Rules about parameters: who holds, reaches and initialises them."""
