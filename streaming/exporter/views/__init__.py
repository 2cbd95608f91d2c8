"""Parts of the JSON API, made of snapshots."""
