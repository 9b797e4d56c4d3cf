"""What makes files of this repository."""
