"""Parts of the JSON API, made from snapshots."""
