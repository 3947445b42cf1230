"""Results side by side: what differs, by how much, and what may be concluded from it.

statistics  two samples -> their ratio, its interval, the verdict
"""
