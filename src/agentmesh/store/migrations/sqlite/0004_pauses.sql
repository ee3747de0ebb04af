-- Pauses of tasks, the end that a pause may have, and keys that one open task at most may have.
--
-- A paused task has a row in `task_pause` and `paused = 1` in its own row, so that it stands in no index of ready or
-- scheduled tasks: a claim costs the same however many tasks are paused. `ceiling` names the kind of end that happened
-- too often; it is NULL, and `agent_id` is not, where an agent or an operator paused the task. `excused_fence` is the
-- fence of the attempt that reached the last ceiling: ends up to it do not count toward the next one. `length_us` of a
-- breaker is how long its pause was when it began: one that has longer to go than that is over, for the clock was set back.
--
-- `retry_at_us` is when a failed attempt may be repeated, as its holder was told; NULL where it did not say.

ALTER TABLE task ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN key TEXT;
ALTER TABLE task ADD COLUMN excused_fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pause ADD COLUMN until_us INTEGER;
ALTER TABLE breaker ADD COLUMN length_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN retry_at_us INTEGER;

CREATE TABLE task_pause (
    task_pk  INTEGER PRIMARY KEY REFERENCES task (pk),
    reason   TEXT    NOT NULL,
    agent_id TEXT,
    since_us INTEGER NOT NULL,
    until_us INTEGER,
    ceiling  TEXT CHECK (ceiling IN ('released', 'infra', 'quota', 'reclaimed'))
) STRICT;

CREATE INDEX task_pause_until ON task_pause (until_us, task_pk) WHERE until_us IS NOT NULL;

DROP INDEX task_ready;
DROP INDEX task_plan_ready;
DROP INDEX task_pool_ready;
DROP INDEX task_scheduled;
CREATE INDEX task_ready ON task (requires_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NULL AND paused = 0;
CREATE INDEX task_plan_ready ON task (plan_pk, requires_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NULL AND paused = 0;
CREATE INDEX task_pool_ready ON task (pool_pk, urgency DESC, pk) WHERE state = 'pending' AND pool_pk IS NOT NULL AND paused = 0;
CREATE INDEX task_scheduled ON task (not_before_us, pk) WHERE state = 'scheduled' AND paused = 0;
CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled');
CREATE INDEX task_paused ON task (state, plan_pk, pk) WHERE paused = 1;

DROP VIEW task_view;
CREATE VIEW task_view AS
SELECT task.pk, task.id, task.plan_pk, plan.name AS plan, plan.workspace, task.title, task.state, task.priority,
       task.urgency, task.requires_pk, requirement.names AS requires, task.pool_pk, pool.paths, task.parents,
       task.unmet, task.fence, task.opened_fence, task.excused_fence, task.charged, task.max_attempts,
       task.lease_timeout_us, task.max_hold_us, task.not_before_us, task.created_us, task.ended_us, task.estimate_pusd,
       task.estimate_tokens, task.has_body, task.tags, task.key, task.paused, task.reason, task.root_pk, attempt.agent_id AS holder,
       attempt.lease_expires_us
  FROM task
  JOIN plan ON plan.pk = task.plan_pk
  JOIN requirement ON requirement.pk = task.requires_pk
  LEFT JOIN pool ON pool.pk = task.pool_pk
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.fence = task.fence AND attempt.outcome IS NULL;
