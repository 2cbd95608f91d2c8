"""The door for agents, asked with the SDK's own client."""
