-- The blackboard's tables.
--
-- An entry is a narrow row of facts beside its value, so that a listing never reads values. A JSON value stands in `body`,
-- an artifact in `bytes`; an entry has one of the two, and a content type if and only if it is an artifact.
--
-- An entry that was deleted, or that expired and was swept, leaves a tombstone with the last version it had: the next
-- entry of that name goes on counting from there, so a version never stands for two different values.

CREATE TABLE entry (
    pk           INTEGER PRIMARY KEY,
    namespace    TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    version      INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    content_type TEXT,
    created_us   INTEGER NOT NULL,
    updated_us   INTEGER NOT NULL,
    expires_us   INTEGER,
    agent_id     TEXT    NOT NULL,
    task_id      TEXT,
    fence        INTEGER,
    UNIQUE (namespace, key)
) STRICT;

CREATE INDEX entry_due ON entry (expires_us, pk) WHERE expires_us IS NOT NULL;

CREATE TABLE entry_value (
    entry_pk INTEGER PRIMARY KEY REFERENCES entry (pk),
    body     TEXT,
    bytes    BLOB
) STRICT;

CREATE TABLE entry_tombstone (
    namespace TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
