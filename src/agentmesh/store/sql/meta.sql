-- name: fact
-- Something about the board itself that was written when it was created.
SELECT value FROM meta WHERE key = :key

-- name: add_fact
-- The same, when the board is created.
INSERT INTO meta (key, value) VALUES (:key, :value)
