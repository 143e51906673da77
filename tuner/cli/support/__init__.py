"""What several commands share: options and names, lines and tables for people, JSON for programs.

Also how the command line ends: on errors, signals and outputs that are no longer read.
"""
