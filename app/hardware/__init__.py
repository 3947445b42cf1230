"""This machine: what it is made of (`detect`), what devices are known to do (`catalogue`), how fast its memory is read
(`bandwidth`), and what its sensors show (`sensors`, `sensor_process`, `foreign_load`).
"""
