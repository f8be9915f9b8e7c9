"""Contacts ahead of their touch."""
