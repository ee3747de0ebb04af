"""Checks of what happened: a plain model that replays the history of a board and trusts nothing of the board's code."""
