"""A user's template in its own process: it is called there, and only plain data comes back.

``host`` is our side and ``server`` the other; ``link`` carries frames between them, ``plain`` says what may be in one,
and ``declared`` rebuilds from it what the template declares.
"""
