"""Pictures of a history: as plain text, and as one page of HTML."""
