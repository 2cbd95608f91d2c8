"""Records of __remote_log_metadata as observations."""
