-- The board's tables.
--
-- A task moves blocked -> scheduled -> pending -> in_progress -> completed | failed | cancelled. `unmet` counts the
-- edges that still hold it; `fence` counts its hand-outs; the open hand-out is the `attempt` row of that fence whose
-- outcome is NULL. Rows that change on every call are narrow: long text lives in `body` and `result`.
--
-- Tasks without paths are found by the partial indexes over `task`. Tasks with paths stand in a `pool` (one per plan,
-- capability set and set of patterns); a pool knows its head, and waits in a `lot` while a pattern that overlaps its
-- own is held. A lot belongs to the held pattern, not to its holder: it opens and closes with one row however many
-- tasks wait in it.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE plan (
    pk         INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL UNIQUE,
    workspace  TEXT    NOT NULL,
    created_us INTEGER NOT NULL
) STRICT;

CREATE TABLE tally (
    plan_pk     INTEGER PRIMARY KEY REFERENCES plan (pk),
    blocked     INTEGER NOT NULL DEFAULT 0,
    scheduled   INTEGER NOT NULL DEFAULT 0,
    pending     INTEGER NOT NULL DEFAULT 0,
    in_progress INTEGER NOT NULL DEFAULT 0,
    completed   INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    cancelled   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE requirement (
    pk    INTEGER PRIMARY KEY,
    names TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE lot (
    pk        INTEGER PRIMARY KEY,
    workspace TEXT    NOT NULL,
    pattern   TEXT    NOT NULL,
    mode      TEXT    NOT NULL CHECK (mode IN ('write', 'read')),
    is_open   INTEGER NOT NULL,
    UNIQUE (workspace, pattern, mode)
) STRICT;

CREATE TABLE pool (
    pk           INTEGER PRIMARY KEY,
    plan_pk      INTEGER NOT NULL REFERENCES plan (pk),
    requires_pk  INTEGER NOT NULL REFERENCES requirement (pk),
    paths        TEXT    NOT NULL,
    head_pk      INTEGER,
    head_urgency INTEGER,
    lot_pk       INTEGER REFERENCES lot (pk),
    UNIQUE (plan_pk, requires_pk, paths)
) STRICT;

CREATE INDEX pool_ready ON pool (requires_pk, head_urgency DESC, head_pk) WHERE head_pk IS NOT NULL AND lot_pk IS NULL;
CREATE INDEX pool_plan_ready ON pool (plan_pk, requires_pk, head_urgency DESC, head_pk) WHERE head_pk IS NOT NULL AND lot_pk IS NULL;
CREATE INDEX pool_parked ON pool (lot_pk, requires_pk, head_urgency DESC, head_pk) WHERE lot_pk IS NOT NULL;
CREATE INDEX pool_lot ON pool (lot_pk, head_urgency DESC, head_pk) WHERE lot_pk IS NOT NULL;
CREATE INDEX pool_waiting ON pool (requires_pk, pk) WHERE head_pk IS NOT NULL AND lot_pk IS NOT NULL;
CREATE INDEX lot_open ON lot (pk) WHERE is_open = 1;

CREATE TABLE task (
    pk               INTEGER PRIMARY KEY,
    id               TEXT    NOT NULL UNIQUE,
    plan_pk          INTEGER NOT NULL REFERENCES plan (pk),
    title            TEXT    NOT NULL,
    state            TEXT    NOT NULL CHECK (state IN ('blocked', 'scheduled', 'pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    priority         INTEGER NOT NULL,
    urgency          INTEGER NOT NULL,
    requires_pk      INTEGER NOT NULL REFERENCES requirement (pk),
    pool_pk          INTEGER REFERENCES pool (pk),
    parents          INTEGER NOT NULL,
    unmet            INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    opened_fence     INTEGER NOT NULL,
    opened_us        INTEGER,
    charged          INTEGER NOT NULL,
    max_attempts     INTEGER NOT NULL,
    lease_timeout_us INTEGER NOT NULL,
    max_hold_us      INTEGER NOT NULL,
    not_before_us    INTEGER,
    created_us       INTEGER NOT NULL,
    ended_us         INTEGER,
    estimate_pusd    INTEGER,
    has_body         INTEGER NOT NULL,
    tags             TEXT,
    reason           TEXT,
    root_pk          INTEGER
) STRICT;

CREATE INDEX task_ready ON task (requires_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NULL;
CREATE INDEX task_plan_ready ON task (plan_pk, requires_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NULL;
CREATE INDEX task_pool_ready ON task (pool_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NOT NULL;
CREATE INDEX task_scheduled ON task (not_before_us, pk) WHERE state = 'scheduled';

CREATE TABLE body (
    task_pk     INTEGER PRIMARY KEY REFERENCES task (pk),
    description TEXT,
    payload     TEXT
) STRICT;

CREATE TABLE result (
    task_pk INTEGER PRIMARY KEY REFERENCES task (pk),
    body    TEXT NOT NULL
) STRICT;

CREATE TABLE task_tag (
    tag     TEXT    NOT NULL,
    task_pk INTEGER NOT NULL REFERENCES task (pk),
    PRIMARY KEY (tag, task_pk)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_tag_task ON task_tag (task_pk, tag);

CREATE TABLE edge (
    child_pk  INTEGER NOT NULL REFERENCES task (pk),
    parent_pk INTEGER NOT NULL REFERENCES task (pk),
    condition TEXT    NOT NULL CHECK (condition IN ('completed', 'failed', 'finished')),
    PRIMARY KEY (child_pk, parent_pk)
) STRICT, WITHOUT ROWID;

CREATE INDEX edge_parent ON edge (parent_pk, child_pk, condition);

CREATE TABLE attempt (
    task_pk          INTEGER NOT NULL REFERENCES task (pk),
    fence            INTEGER NOT NULL,
    agent_id         TEXT    NOT NULL,
    secret           TEXT    NOT NULL,
    charged          INTEGER NOT NULL,
    holds            INTEGER NOT NULL,
    started_us       INTEGER NOT NULL,
    heartbeat_us     INTEGER NOT NULL,
    lease_expires_us INTEGER NOT NULL,
    ended_us         INTEGER,
    outcome          TEXT CHECK (outcome IN ('completed', 'failed', 'released', 'split', 'reclaimed', 'cancelled')),
    kind             TEXT CHECK (kind IN ('task', 'infra', 'quota')),
    late             INTEGER NOT NULL DEFAULT 0,
    error            TEXT,
    PRIMARY KEY (task_pk, fence)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_due ON attempt (lease_expires_us, task_pk, fence) WHERE outcome IS NULL;

CREATE VIEW task_view AS
SELECT task.pk, task.id, task.plan_pk, plan.name AS plan, plan.workspace, task.title, task.state, task.priority,
       task.urgency, task.requires_pk, requirement.names AS requires, task.pool_pk, pool.paths, task.parents,
       task.unmet, task.fence, task.opened_fence, task.charged, task.max_attempts, task.lease_timeout_us,
       task.max_hold_us, task.not_before_us, task.created_us, task.ended_us, task.estimate_pusd, task.has_body,
       task.tags, task.reason, task.root_pk, attempt.agent_id AS holder, attempt.lease_expires_us
  FROM task
  JOIN plan ON plan.pk = task.plan_pk
  JOIN requirement ON requirement.pk = task.requires_pk
  LEFT JOIN pool ON pool.pk = task.pool_pk
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.fence = task.fence AND attempt.outcome IS NULL;

CREATE TABLE aversion (
    task_pk  INTEGER NOT NULL REFERENCES task (pk),
    agent_id TEXT    NOT NULL,
    until_us INTEGER NOT NULL,
    PRIMARY KEY (task_pk, agent_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX aversion_until ON aversion (until_us);

CREATE TABLE hold (
    workspace TEXT    NOT NULL,
    anchor    TEXT    NOT NULL,
    pattern   TEXT    NOT NULL,
    mode      TEXT    NOT NULL CHECK (mode IN ('write', 'read')),
    task_pk   INTEGER NOT NULL REFERENCES task (pk),
    fence     INTEGER NOT NULL,
    PRIMARY KEY (workspace, anchor, pattern, mode, task_pk)
) STRICT, WITHOUT ROWID;

CREATE INDEX hold_task ON hold (task_pk, fence);

CREATE TABLE pause (
    scope    TEXT    NOT NULL CHECK (scope IN ('board', 'plan', 'agent')),
    name     TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    agent_id TEXT    NOT NULL,
    since_us INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent (
    agent_id     TEXT PRIMARY KEY,
    capabilities TEXT    NOT NULL,
    seen_us      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE note (
    pk       INTEGER PRIMARY KEY,
    task_pk  INTEGER NOT NULL REFERENCES task (pk),
    fence    INTEGER NOT NULL,
    agent_id TEXT    NOT NULL,
    at_us    INTEGER NOT NULL,
    text     TEXT    NOT NULL
) STRICT;

CREATE INDEX note_task ON note (task_pk, pk);

CREATE TABLE request (
    agent_id   TEXT    NOT NULL,
    request_id TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    reply      TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    PRIMARY KEY (agent_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX request_age ON request (created_us);

CREATE TABLE event (
    seq      INTEGER PRIMARY KEY,
    at_us    INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    plan_pk  INTEGER,
    task_id  TEXT,
    fence    INTEGER,
    agent_id TEXT,
    data     TEXT    NOT NULL
) STRICT;

INSERT INTO requirement (pk, names) VALUES (0, '[]');
