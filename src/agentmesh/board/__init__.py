"""What a board does: plain functions on a transaction, one module a subject, and `Board`, which runs them."""
