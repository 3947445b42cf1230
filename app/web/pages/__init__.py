"""One module per page or family of pages."""
