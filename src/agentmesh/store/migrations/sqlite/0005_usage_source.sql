-- Where usage is from: the instant it was used, who reported it, and a key that counts it once for ever.
--
-- `at_us` of an entry is the instant of the usage; the instant at which it was written is that of its event. A source key
-- is the identity of what was used at its source, such as the id that a vendor gave a reply. `usage_source` holds what has
-- been counted under each key, so that a key is never counted twice, also after its entries were pruned. Where a reply is
-- reported again with larger counts, a further entry of the same source holds the difference: the row here is the sum.

ALTER TABLE usage_entry ADD COLUMN source TEXT;
ALTER TABLE usage_entry ADD COLUMN origin TEXT NOT NULL DEFAULT 'self' CHECK (origin IN ('self', 'import', 'launch'));

CREATE INDEX usage_entry_source ON usage_entry (source) WHERE source IS NOT NULL;

CREATE TABLE usage_source (
    source              TEXT    PRIMARY KEY,
    entry_pk            INTEGER,
    at_us               INTEGER NOT NULL,
    plan_pk             INTEGER NOT NULL,
    agent_id            TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    origin              TEXT    NOT NULL CHECK (origin IN ('self', 'import', 'launch')),
    entries             INTEGER NOT NULL,
    unpriced            INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    duration_us         INTEGER NOT NULL,
    cost_pusd           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
