"""What a process took: watched, noted, shown in a notebook."""
