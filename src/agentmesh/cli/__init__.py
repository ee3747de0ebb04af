"""The command line: the board's verbs for people and shell scripts."""
