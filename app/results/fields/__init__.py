"""The one registry of fields: what a run, its configuration, its model, its workload and its metrics have.

field          what a field is, and the context that it is read from
configuration  model, engine, labels and settings
run            machine, server, suite, workload, and what a person wrote about a run
registry       metrics, what is derived from one, and all fields together
series         what series of a history are made by

A setting is added in `app.core.config_settings`, a metric in `app.metrics`, any other field in one of these lists.
"""
