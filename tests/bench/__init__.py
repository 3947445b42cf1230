"""Benchmarks: figures beside their yardsticks, both measured in the same run. They print; they never fail.

make bench                 all of them
make bench ARGS=fidelity   one of them
"""
