"""The page in which a trained model answers."""
