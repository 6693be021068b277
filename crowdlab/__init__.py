"""Crowd and flock simulation for notebooks."""
