"""What several commands share: their options and names, lines and tables as people read them, JSON as programs do.

How the command line ends is here too: on errors, signals and outputs that nobody reads any more.
"""
