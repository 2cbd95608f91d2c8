"""The past of a cluster: moments, states by replay of recorded observations, and capsules."""
