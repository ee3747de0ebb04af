"""The verbs of a board, grouped by who uses them."""
