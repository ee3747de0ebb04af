"""A board as text and back: exports, which are JSON Lines, and new boards that are made from them."""
