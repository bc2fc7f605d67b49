"""`internalize bench`: this engine against Hugging Face GPT-2 and against the machine's own peak."""
