"""The door for agents: the API's endpoints as tools of the Model Context Protocol (MCP)."""
