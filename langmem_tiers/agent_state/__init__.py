"""Short-term state of a session and an agent, and workflows of completed tasks."""
