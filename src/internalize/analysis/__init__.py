"""What finished runs tell."""
