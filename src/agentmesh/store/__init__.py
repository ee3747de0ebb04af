"""Where boards are kept: one narrow seam (`base`), an engine per technology, the SQL they share."""
