"""Statistics between runs: pure functions of numbers. Other packages word the results.

student  Student's t: quantiles and p-values; Welch's degrees of freedom
runs     the median of a run, and how much runs of one configuration differ
verdict  the ratio of two results with its interval, and what may be concluded from it
"""
