"""A user's template in a process of its own: it is asked there, and only plain data comes back.

``host`` is our side and ``server`` the other; ``link`` carries frames between them, ``plain`` says what may be in one,
and ``declared`` makes of it what the template declares.
"""
