"""The pages of docs/ that are generated, one module each."""
