"""`astra mcp`: Astra's verbs as tools of the Model Context Protocol, for an agent that decides by itself."""
