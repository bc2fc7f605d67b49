"""A model in hand: generation at a budget, accuracy and cost."""
