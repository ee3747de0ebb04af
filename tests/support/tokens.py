"""What a text costs a language model."""

from toktok import batch_count

VOCABULARY = "o200k_base"
"""That of a family of models in wide use; others differ by a few percent. It is part of the package."""


def tokens(*texts):
    """How many tokens these texts are together."""
    return sum(batch_count(texts, VOCABULARY))
