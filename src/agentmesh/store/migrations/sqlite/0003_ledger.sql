-- The ledger, budgets, and what operators need.
--
-- A usage entry is written once and never changed. `usage_total` sums entries by plan, agent, model and UTC day in the
-- transaction that writes them, so a total costs the same however many entries there are; what an attempt used becomes
-- waste there when the attempt ends in vain. Pruning takes a task's entries away and leaves their sums in `usage_pruned`:
-- a total is always the sum of the entries that are left and of what was pruned. A number is never given to another entry.
--
-- A budget carries what is spent and reserved beside its limits, because every hand-out asks for it. A reservation stands
-- in the attempt that it was made for, shrinks as that attempt's usage comes in, and ends with it. A budget of one task
-- bars it by an instant, so that a claim passes it over as it passes over what its agent released.
--
-- `plan_pk` 0 in the ledger stands for usage that belongs to no task; `model` '' for usage of no model.

ALTER TABLE plan ADD COLUMN retention_us INTEGER;
ALTER TABLE task ADD COLUMN estimate_tokens INTEGER;
ALTER TABLE attempt ADD COLUMN reserved_pusd INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN reserved_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entry_tombstone ADD COLUMN buried_us INTEGER NOT NULL DEFAULT 0;

CREATE INDEX task_pool ON task (pool_pk) WHERE pool_pk IS NOT NULL;
CREATE INDEX task_root ON task (root_pk) WHERE root_pk IS NOT NULL;

DROP VIEW task_view;
CREATE VIEW task_view AS
SELECT task.pk, task.id, task.plan_pk, plan.name AS plan, plan.workspace, task.title, task.state, task.priority,
       task.urgency, task.requires_pk, requirement.names AS requires, task.pool_pk, pool.paths, task.parents,
       task.unmet, task.fence, task.opened_fence, task.charged, task.max_attempts, task.lease_timeout_us,
       task.max_hold_us, task.not_before_us, task.created_us, task.ended_us, task.estimate_pusd, task.estimate_tokens,
       task.has_body, task.tags, task.reason, task.root_pk, attempt.agent_id AS holder, attempt.lease_expires_us
  FROM task
  JOIN plan ON plan.pk = task.plan_pk
  JOIN requirement ON requirement.pk = task.requires_pk
  LEFT JOIN pool ON pool.pk = task.pool_pk
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.fence = task.fence AND attempt.outcome IS NULL;

CREATE TABLE usage_entry (
    pk                  INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us               INTEGER NOT NULL,
    plan_pk             INTEGER NOT NULL,
    task_pk             INTEGER REFERENCES task (pk),
    fence               INTEGER,
    agent_id            TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    duration_us         INTEGER NOT NULL,
    cost_pusd           INTEGER,
    price               TEXT
) STRICT;

CREATE INDEX usage_entry_task ON usage_entry (task_pk, fence) WHERE task_pk IS NOT NULL;

CREATE TABLE usage_total (
    plan_pk             INTEGER NOT NULL,
    agent_id            TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    day                 INTEGER NOT NULL,
    entries             INTEGER NOT NULL,
    unpriced            INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    duration_us         INTEGER NOT NULL,
    cost_pusd           INTEGER NOT NULL,
    wasted_tokens       INTEGER NOT NULL,
    wasted_us           INTEGER NOT NULL,
    wasted_pusd         INTEGER NOT NULL,
    PRIMARY KEY (day, plan_pk, agent_id, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_pruned (
    plan_pk             INTEGER NOT NULL,
    agent_id            TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    day                 INTEGER NOT NULL,
    entries             INTEGER NOT NULL,
    unpriced            INTEGER NOT NULL,
    input_tokens        INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    cache_write_tokens  INTEGER NOT NULL,
    output_tokens       INTEGER NOT NULL,
    duration_us         INTEGER NOT NULL,
    cost_pusd           INTEGER NOT NULL,
    wasted_tokens       INTEGER NOT NULL,
    wasted_us           INTEGER NOT NULL,
    wasted_pusd         INTEGER NOT NULL,
    attempts            INTEGER NOT NULL,
    held_us             INTEGER NOT NULL,
    PRIMARY KEY (plan_pk, agent_id, model, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE budget (
    pk              INTEGER PRIMARY KEY,
    scope           TEXT    NOT NULL CHECK (scope IN ('board', 'plan', 'task', 'agent')),
    name            TEXT    NOT NULL,
    period          TEXT    NOT NULL CHECK (period IN ('lifetime', 'day')),
    limit_pusd      INTEGER,
    limit_tokens    INTEGER,
    strict          INTEGER NOT NULL,
    day             INTEGER NOT NULL,
    spent_pusd      INTEGER NOT NULL,
    spent_tokens    INTEGER NOT NULL,
    unpriced        INTEGER NOT NULL,
    reserved_pusd   INTEGER NOT NULL,
    reserved_tokens INTEGER NOT NULL,
    warned          INTEGER NOT NULL,
    task_pk         INTEGER REFERENCES task (pk),
    barred_until_us INTEGER NOT NULL,
    UNIQUE (scope, name, period)
) STRICT;

CREATE INDEX budget_task ON budget (task_pk, barred_until_us) WHERE task_pk IS NOT NULL;

CREATE TABLE claim_cap (
    agent_id TEXT    PRIMARY KEY,
    most     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE breaker (
    plan_pk       INTEGER PRIMARY KEY REFERENCES plan (pk),
    storms        INTEGER NOT NULL,
    open_until_us INTEGER NOT NULL,
    since_us      INTEGER NOT NULL
) STRICT;

CREATE INDEX attempt_storm ON attempt (ended_us) WHERE kind IN ('infra', 'quota');

CREATE TABLE task_tombstone (
    id        TEXT    PRIMARY KEY,
    plan_pk   INTEGER NOT NULL REFERENCES plan (pk),
    state     TEXT    NOT NULL CHECK (state IN ('completed', 'failed', 'cancelled')),
    fence     INTEGER NOT NULL,
    pruned_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
