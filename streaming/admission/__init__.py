"""The admission webhook: a broker pod is evicted only when its broker may go."""
