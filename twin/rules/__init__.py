"""The rules: one document or idea a file, each a pure function of a fleet."""
