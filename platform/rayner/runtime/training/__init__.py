"""What a training worker is made of."""
