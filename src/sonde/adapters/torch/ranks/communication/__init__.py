"""What a rank exchanges with others: collectives, messages, their results."""
