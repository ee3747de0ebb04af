-- name: entry_now
-- An entry with its value, unless it has expired.
SELECT entry.namespace, entry.key, entry.version, entry.size, entry.content_type, entry.created_us, entry.updated_us,
       entry.expires_us, entry.agent_id, entry.task_id, entry.fence, entry_value.body, entry_value.bytes
  FROM entry JOIN entry_value ON entry_value.entry_pk = entry.pk
 WHERE entry.namespace = :namespace AND entry.key = :key AND (entry.expires_us IS NULL OR entry.expires_us > :now_us)

-- name: find_entry
-- What a writer has to know, in one row: the entry of a name, expired or not, or the last version of one that is gone; and
-- whether any entry waits to be swept, as by entries_due.
SELECT entry.pk, entry.version, entry.created_us, entry.expires_us,
       CASE WHEN entry.pk IS NULL THEN (SELECT entry_tombstone.version FROM entry_tombstone
         WHERE entry_tombstone.namespace = :namespace AND entry_tombstone.key = :key) END AS last,
       (SELECT due.pk FROM entry AS due
         WHERE due.expires_us IS NOT NULL AND due.expires_us <= :now_us
           AND due.expires_us <= (SELECT at_us FROM event ORDER BY seq DESC LIMIT 1)
         ORDER BY due.expires_us, due.pk LIMIT 1) AS due_pk
  FROM (SELECT 1 AS one) AS here
  LEFT JOIN entry ON entry.namespace = :namespace AND entry.key = :key

-- name: entry_body
-- The JSON text of an entry.
SELECT body FROM entry_value WHERE entry_pk = :pk

-- name: add_entry
-- A new entry; two that are added at once collide on the name, and one of the transactions runs again.
INSERT INTO entry (namespace, key, version, size, content_type, created_us, updated_us, expires_us, agent_id, task_id, fence)
VALUES (:namespace, :key, :version, :size, :content_type, :now_us, :now_us, :expires_us, :agent_id, :task_id, :fence)
RETURNING pk

-- name: change_entry
-- Write over an entry, guarded by the version that was read.
UPDATE entry SET version = version + 1, size = :size, content_type = :content_type, updated_us = :now_us,
       expires_us = :expires_us, agent_id = :agent_id, task_id = :task_id, fence = :fence
 WHERE pk = :pk AND version = :was

-- name: add_entry_value
-- The value of a new entry.
INSERT INTO entry_value (entry_pk, body, bytes) VALUES (:pk, :body, :bytes)

-- name: change_entry_value
-- The value of an entry that was written over.
UPDATE entry_value SET body = :body, bytes = :bytes WHERE entry_pk = :pk

-- name: add_tombstone
-- Remember how far an entry had counted, until a prune forgets it.
INSERT INTO entry_tombstone (namespace, key, version, buried_us) VALUES (:namespace, :key, :version, :now_us)

-- name: drop_tombstone
-- The entry is there again and counts on by itself.
DELETE FROM entry_tombstone WHERE namespace = :namespace AND key = :key

-- name: drop_entry_value
-- The value of an entry that goes.
DELETE FROM entry_value WHERE entry_pk = :pk

-- name: drop_entry
-- The entry itself, guarded by the version that was read.
DELETE FROM entry WHERE pk = :pk AND version = :was

-- name: entries_due
-- Entries that nobody has swept yet and that had expired by the newest event, too, a few at a time: one instant that is
-- wrong takes nothing away that is alive.
SELECT pk, namespace, key, version FROM entry
 WHERE expires_us IS NOT NULL AND expires_us <= :now_us
   AND expires_us <= (SELECT at_us FROM event ORDER BY seq DESC LIMIT 1)
 ORDER BY expires_us, pk LIMIT :most /*skip_locked*/

-- name: entries_of
-- A page of one namespace.
SELECT namespace, key, version, size, content_type, created_us, updated_us, expires_us, agent_id, task_id, fence
  FROM entry
 WHERE namespace = :namespace AND key >= :first AND key < :past AND (expires_us IS NULL OR expires_us > :now_us)
 ORDER BY namespace, key LIMIT :most

-- name: entries_below
-- A page of all namespaces in a range, from a place on.
SELECT namespace, key, version, size, content_type, created_us, updated_us, expires_us, agent_id, task_id, fence
  FROM entry
 WHERE (namespace, key) > (:after_namespace, :after_key) AND namespace < :past_namespace
   AND key >= :first AND key < :past AND (expires_us IS NULL OR expires_us > :now_us)
 ORDER BY namespace, key LIMIT :most

-- name: count_entries
-- How many entries there are and how large, how many have expired and are not swept, how many tombstones there are.
SELECT COALESCE(SUM(CASE WHEN expires_us IS NULL OR expires_us > :now_us THEN 1 ELSE 0 END), 0) AS entries,
       COALESCE(SUM(CASE WHEN expires_us IS NULL OR expires_us > :now_us THEN size ELSE 0 END), 0) AS size,
       COALESCE(SUM(CASE WHEN expires_us <= :now_us THEN 1 ELSE 0 END), 0) AS expired,
       (SELECT COUNT(*) FROM entry_tombstone) AS tombstones
  FROM entry
