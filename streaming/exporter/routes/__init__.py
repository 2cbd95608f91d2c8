"""What is answered on which path: one file a group of paths."""
