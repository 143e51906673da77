"""The bench: one configuration compiled, checked on every element, and timed, in a process that owns the device.

What a device can do at most (ceilings, roofline) and whether it is still what it was (drift) are measured here too.
"""
