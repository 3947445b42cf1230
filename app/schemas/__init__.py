"""Versioned JSON documents of the API and the command line."""
