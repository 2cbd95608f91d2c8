"""Changes that an operator may make to the cluster, planned from the state; nothing is changed."""
