"""What is going on at the moment: a short-term state and what is in mind."""
