"""The runs of configurations in order of time, and where their level shifts."""
