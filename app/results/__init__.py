"""Every number that is shown: lists, histories, comparisons, ceilings of runs and the explorer, each computed once."""
