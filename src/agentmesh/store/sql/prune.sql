-- name: prunable_tasks
-- A page of the final tasks that ended long enough ago and that no open task waits for, in the order of their creation.
SELECT task.pk, task.id, task.plan_pk, plan.name AS plan, task.state, task.fence, task.ended_us, task.pool_pk
  FROM task JOIN plan ON plan.pk = task.plan_pk
 WHERE task.pk > :after AND task.state IN ('completed', 'failed', 'cancelled')
   AND (CAST(:plan_pk AS BIGINT) IS NULL OR task.plan_pk = :plan_pk)
   AND task.ended_us <= COALESCE(CAST(:ended_us AS BIGINT), :now_us - plan.retention_us)
   AND NOT EXISTS (SELECT 1 FROM edge JOIN task AS child ON child.pk = edge.child_pk
                    WHERE edge.parent_pk = task.pk AND child.state NOT IN ('completed', 'failed', 'cancelled'))
 ORDER BY task.pk LIMIT :most

-- name: kin_of
-- The other tasks whose rows know a task: those that waited for it, and those that were cancelled because of it.
SELECT child.id FROM edge JOIN task AS child ON child.pk = edge.child_pk WHERE edge.parent_pk = :pk
 UNION
SELECT id FROM task WHERE root_pk = :pk ORDER BY id

-- name: bury_task
-- The tombstone of a task, if it still is as it was found, and still no open task waits for it.
INSERT INTO task_tombstone (id, plan_pk, state, fence, pruned_us)
SELECT task.id, task.plan_pk, task.state, task.fence, :now_us
  FROM task
 WHERE task.pk = :pk AND task.state = :state AND task.fence = :fence AND task.ended_us = :ended_us
   AND NOT EXISTS (SELECT 1 FROM edge JOIN task AS child ON child.pk = edge.child_pk
                    WHERE edge.parent_pk = task.pk AND child.state NOT IN ('completed', 'failed', 'cancelled'))

-- name: forget_parent
-- Those that waited for a task count one parent less.
UPDATE task SET parents = parents - 1 WHERE pk IN (SELECT child_pk FROM edge WHERE parent_pk = :pk)

-- name: forget_root
-- Those that were cancelled because of a task no longer come back with it.
UPDATE task SET root_pk = NULL WHERE root_pk = :pk

-- name: drop_edges
-- All edges of a task.
DELETE FROM edge WHERE parent_pk = :pk OR child_pk = :pk

-- name: roll_up_usage
-- Add what a task's usage entries say to what is kept of pruned ones; the entries of attempts that ended in vain are waste.
INSERT INTO usage_pruned (plan_pk, agent_id, model, day, entries, unpriced,
                          input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, duration_us, cost_pusd,
                          wasted_tokens, wasted_us, wasted_pusd, attempts, held_us)
SELECT used.plan_pk, used.agent_id, used.model, used.at_us / 86400000000, COUNT(*),
       SUM(CASE WHEN used.cost_pusd IS NULL THEN 1 ELSE 0 END),
       SUM(used.input_tokens), SUM(used.cached_input_tokens), SUM(used.cache_write_tokens), SUM(used.output_tokens),
       SUM(used.duration_us), COALESCE(SUM(used.cost_pusd), 0),
       COALESCE(SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                         THEN used.input_tokens + used.cached_input_tokens + used.cache_write_tokens + used.output_tokens END), 0),
       COALESCE(SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled') THEN used.duration_us END), 0),
       COALESCE(SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled') THEN used.cost_pusd END), 0),
       0, 0
  FROM usage_entry AS used
  LEFT JOIN attempt ON attempt.task_pk = used.task_pk AND attempt.fence = used.fence
 WHERE used.task_pk = :task_pk
 GROUP BY used.plan_pk, used.agent_id, used.model, used.at_us / 86400000000
ON CONFLICT (plan_pk, agent_id, model, day) DO UPDATE SET
       entries = usage_pruned.entries + excluded.entries, unpriced = usage_pruned.unpriced + excluded.unpriced,
       input_tokens = usage_pruned.input_tokens + excluded.input_tokens,
       cached_input_tokens = usage_pruned.cached_input_tokens + excluded.cached_input_tokens,
       cache_write_tokens = usage_pruned.cache_write_tokens + excluded.cache_write_tokens,
       output_tokens = usage_pruned.output_tokens + excluded.output_tokens,
       duration_us = usage_pruned.duration_us + excluded.duration_us,
       cost_pusd = usage_pruned.cost_pusd + excluded.cost_pusd,
       wasted_tokens = usage_pruned.wasted_tokens + excluded.wasted_tokens,
       wasted_us = usage_pruned.wasted_us + excluded.wasted_us, wasted_pusd = usage_pruned.wasted_pusd + excluded.wasted_pusd

-- name: roll_up_attempts
-- The same for its attempts: how many there were, and how long they were held, on the days on which they began.
INSERT INTO usage_pruned (plan_pk, agent_id, model, day, entries, unpriced,
                          input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, duration_us, cost_pusd,
                          wasted_tokens, wasted_us, wasted_pusd, attempts, held_us)
SELECT task.plan_pk, attempt.agent_id, '', attempt.started_us / 86400000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
       COUNT(*), SUM(CASE WHEN attempt.ended_us > attempt.started_us THEN attempt.ended_us - attempt.started_us ELSE 0 END)
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.task_pk = :task_pk
 GROUP BY task.plan_pk, attempt.agent_id, attempt.started_us / 86400000000
ON CONFLICT (plan_pk, agent_id, model, day) DO UPDATE SET
       attempts = usage_pruned.attempts + excluded.attempts, held_us = usage_pruned.held_us + excluded.held_us

-- name: drop_usage
-- A task's usage entries.
DELETE FROM usage_entry WHERE task_pk = :task_pk

-- name: drop_attempts
-- A task's attempts.
DELETE FROM attempt WHERE task_pk = :task_pk

-- name: drop_notes
-- The remarks on them.
DELETE FROM note WHERE task_pk = :task_pk

-- name: drop_aversions
-- Who released it.
DELETE FROM aversion WHERE task_pk = :task_pk

-- name: drop_task_budgets
-- The budgets that were its own.
DELETE FROM budget WHERE task_pk = :task_pk

-- name: drop_body
-- Its long texts.
DELETE FROM body WHERE task_pk = :task_pk

-- name: drop_task
-- The task itself, when nothing refers to it any more; guarded by what its tombstone says.
DELETE FROM task WHERE pk = :pk AND state = :state AND fence = :fence

-- name: drop_pool
-- A pool, if no task is left in it.
DELETE FROM pool WHERE pk = :pk AND NOT EXISTS (SELECT 1 FROM task WHERE task.pool_pk = pool.pk)

-- name: oldest_events
-- The history from its beginning, up to an event that stays.
SELECT seq, at_us FROM event WHERE seq > :after AND seq < :newest ORDER BY seq LIMIT :most

-- name: cut_history
-- Let the history begin after an event.
DELETE FROM event WHERE seq <= :seq

-- name: old_tombstones
-- A page of the entries that have been gone since before an instant.
SELECT namespace, key, buried_us FROM entry_tombstone
 WHERE (namespace, key) > (:namespace, :key) AND buried_us <= :before_us ORDER BY namespace, key LIMIT :most

-- name: forget_entry
-- Forget that an entry was ever there, unless it has been there again.
DELETE FROM entry_tombstone WHERE namespace = :namespace AND key = :key AND buried_us = :buried_us
