"""What is going on at the moment: a short-term state, and the tasks that were completed."""
