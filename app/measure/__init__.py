"""Measuring, from "queue a run" to "samples stored"; each file uses only those below it.

runner             queues runs, starts and cancels their workers, notices those that died
execute            one run: probes its server, plays its suite, stores its result
config_snapshot    which model and context; the configuration that a run freezes
active_run         the run while it is measured: stores each sample and the progress
play               warm-ups and repetitions of every point, each round with its concurrent requests
job                what to measure, and which cases fit into the server's context
waiting            until the server is loaded and idle; stopping at a safe moment

Beside them: run_checks (what was checked before and after), interference (others who use the server or its machine),
server_load and server_log (what the server reports meanwhile), workers (child processes and their locks), notify, and
bandwidth_process (measuring this machine's memory).
"""
