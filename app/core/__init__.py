"""What every other package may know: samples, units, errors, settings, the reader's language."""
