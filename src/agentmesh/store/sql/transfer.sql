-- What an export reads, a page at a time in the order of keys, and what an import enters and then works out from the rows.

-- name: export_counts
-- How many rows of each kind an export has, if wanted with the history; an entry that has expired is as good as a tombstone.
SELECT (SELECT COUNT(*) FROM plan) AS plan,
       (SELECT COUNT(*) FROM task) AS task,
       (SELECT COUNT(*) FROM edge) AS edge,
       (SELECT COUNT(*) FROM attempt) AS attempt,
       (SELECT COUNT(*) FROM note) AS note,
       (SELECT COUNT(*) FROM pause WHERE until_us IS NULL OR until_us > :now_us) AS pause,
       (SELECT COUNT(*) FROM task_pause) AS task_pause,
       (SELECT COUNT(*) FROM claim_cap) AS cap,
       (SELECT COUNT(*) FROM budget) AS budget,
       (SELECT COUNT(*) FROM entry WHERE expires_us IS NULL OR expires_us > :now_us) AS entry,
       (SELECT COUNT(*) FROM entry_tombstone)
       + (SELECT COUNT(*) FROM entry WHERE expires_us <= :now_us) AS entry_tombstone,
       (SELECT COUNT(*) FROM task_tombstone) AS task_tombstone,
       (SELECT COUNT(*) FROM usage_source) AS usage_source,
       (SELECT COUNT(*) FROM usage_entry) AS usage,
       (SELECT COUNT(*) FROM usage_pruned) AS usage_pruned,
       CASE WHEN :events = 1 THEN (SELECT COUNT(*) FROM event) ELSE 0 END AS event

-- name: export_plans
-- Plans in the order of their creation.
SELECT pk AS key_0, name, workspace, created_us, retention_us
  FROM plan WHERE pk > :after_0 ORDER BY pk LIMIT :most

-- name: export_tasks
-- Tasks with their texts, in the order of their creation.
SELECT task.pk AS key_0, task.id, plan.name AS plan, task.title, task.state, task.priority, requirement.names AS requires,
       task.tags, pool.paths, task.estimate_pusd, task.estimate_tokens, task.lease_timeout_us, task.max_hold_us,
       task.max_attempts, task.not_before_us, task.created_us, task.ended_us, task.opened_fence, task.opened_us,
       task.excused_fence, task.key, task.reason, root.id AS root, body.description, body.payload, result.body AS result
  FROM task
  JOIN plan ON plan.pk = task.plan_pk
  JOIN requirement ON requirement.pk = task.requires_pk
  LEFT JOIN pool ON pool.pk = task.pool_pk
  LEFT JOIN task AS root ON root.pk = task.root_pk
  LEFT JOIN body ON body.task_pk = task.pk
  LEFT JOIN result ON result.task_pk = task.pk
 WHERE task.pk > :after_0 ORDER BY task.pk LIMIT :most

-- name: export_edges
-- Edges by child, then parent.
SELECT edge.child_pk AS key_0, edge.parent_pk AS key_1, child.id AS task, parent.id AS depends_on, edge.condition
  FROM edge
  JOIN task AS child ON child.pk = edge.child_pk
  JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE (edge.child_pk, edge.parent_pk) > (:after_0, :after_1) ORDER BY edge.child_pk, edge.parent_pk LIMIT :most

-- name: export_attempts
-- Attempts by task; their secrets stay where they are.
SELECT attempt.task_pk AS key_0, attempt.fence AS key_1, task.id AS task, attempt.fence, attempt.agent_id, attempt.charged,
       attempt.started_us, attempt.heartbeat_us, attempt.lease_expires_us, attempt.ended_us, attempt.outcome, attempt.kind,
       attempt.late, attempt.error, attempt.retry_at_us
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE (attempt.task_pk, attempt.fence) > (:after_0, :after_1) ORDER BY attempt.task_pk, attempt.fence LIMIT :most

-- name: export_notes
-- Notes in the order in which they were left.
SELECT note.pk AS key_0, task.id AS task, note.fence, note.agent_id, note.at_us, note.text
  FROM note JOIN task ON task.pk = note.task_pk WHERE note.pk > :after_0 ORDER BY note.pk LIMIT :most

-- name: export_pauses
-- The pauses of the board, of plans and of agents that last.
SELECT scope AS key_0, name AS key_1, scope, name, reason, agent_id, since_us, until_us
  FROM pause
 WHERE (scope, name) > (:after_0, :after_1) AND (until_us IS NULL OR until_us > :now_us)
 ORDER BY scope, name LIMIT :most

-- name: export_task_pauses
-- The pauses of tasks.
SELECT task_pause.task_pk AS key_0, task.id AS task, task_pause.reason, task_pause.agent_id, task_pause.since_us,
       task_pause.until_us, task_pause.ceiling
  FROM task_pause JOIN task ON task.pk = task_pause.task_pk
 WHERE task_pause.task_pk > :after_0 ORDER BY task_pause.task_pk LIMIT :most

-- name: export_caps
-- How many tasks agents may hold at once; the name of everybody is empty, so there is none before it.
SELECT agent_id AS key_0, agent_id, most FROM claim_cap
 WHERE (CAST(:after_0 AS TEXT) IS NULL OR agent_id > :after_0) ORDER BY agent_id LIMIT :most

-- name: export_budgets
-- The limits of budgets; what is spent of them is worked out from the usage.
SELECT scope AS key_0, name AS key_1, period AS key_2, scope, name, period, limit_pusd, limit_tokens, strict
  FROM budget
 WHERE (scope, name, period) > (:after_0, :after_1, :after_2) ORDER BY scope, name, period LIMIT :most

-- name: export_entries
-- Entries with their values, unless they have expired.
SELECT entry.namespace AS key_0, entry.key AS key_1, entry.namespace, entry.key, entry.version, entry.created_us,
       entry.updated_us, entry.expires_us, entry.agent_id, entry.task_id, entry.fence, entry.content_type,
       entry_value.body, entry_value.bytes
  FROM entry JOIN entry_value ON entry_value.entry_pk = entry.pk
 WHERE (entry.namespace, entry.key) > (:after_0, :after_1) AND (entry.expires_us IS NULL OR entry.expires_us > :now_us)
 ORDER BY entry.namespace, entry.key LIMIT :most

-- name: export_entry_tombstones
-- Names of entries that are gone, swept or not, and how far they had counted.
SELECT namespace AS key_0, key AS key_1, namespace, key, version, buried_us
  FROM entry_tombstone WHERE (namespace, key) > (:after_0, :after_1)
 UNION ALL
SELECT namespace AS key_0, key AS key_1, namespace, key, version, expires_us AS buried_us
  FROM entry WHERE (namespace, key) > (:after_0, :after_1) AND expires_us <= :now_us
 ORDER BY namespace, key LIMIT :most

-- name: export_task_tombstones
-- What is left of tasks that were pruned.
SELECT task_tombstone.id AS key_0, task_tombstone.id, plan.name AS plan, task_tombstone.state, task_tombstone.fence,
       task_tombstone.pruned_us
  FROM task_tombstone JOIN plan ON plan.pk = task_tombstone.plan_pk
 WHERE task_tombstone.id > :after_0 ORDER BY task_tombstone.id LIMIT :most

-- name: export_usage_sources
-- Source keys, and what has been counted under each.
SELECT used.source AS key_0, used.source, used.at_us, plan.name AS plan, used.agent_id, used.model, used.origin, used.entries,
       used.unpriced, used.input_tokens, used.cached_input_tokens, used.cache_write_tokens, used.output_tokens,
       used.duration_us, used.cost_pusd
  FROM usage_source AS used LEFT JOIN plan ON plan.pk = used.plan_pk
 WHERE used.source > :after_0 ORDER BY used.source LIMIT :most

-- name: export_usage
-- Usage entries in the order in which they were recorded.
SELECT used.pk AS key_0, used.at_us, plan.name AS plan, task.id AS task, used.fence, used.agent_id, used.model,
       used.input_tokens, used.cached_input_tokens, used.cache_write_tokens, used.output_tokens, used.duration_us,
       used.cost_pusd, used.price, used.source, used.origin
  FROM usage_entry AS used
  LEFT JOIN plan ON plan.pk = used.plan_pk
  LEFT JOIN task ON task.pk = used.task_pk
 WHERE used.pk > :after_0 ORDER BY used.pk LIMIT :most

-- name: export_usage_pruned
-- The sums of usage entries that were pruned.
SELECT pruned.plan_pk AS key_0, pruned.agent_id AS key_1, pruned.model AS key_2, pruned.day AS key_3,
       plan.name AS plan, pruned.agent_id, pruned.model, pruned.day, pruned.entries, pruned.unpriced, pruned.input_tokens,
       pruned.cached_input_tokens, pruned.cache_write_tokens, pruned.output_tokens, pruned.duration_us, pruned.cost_pusd,
       pruned.wasted_tokens, pruned.wasted_us, pruned.wasted_pusd, pruned.attempts, pruned.held_us
  FROM usage_pruned AS pruned LEFT JOIN plan ON plan.pk = pruned.plan_pk
 WHERE (pruned.plan_pk, pruned.agent_id, pruned.model, pruned.day) > (:after_0, :after_1, :after_2, :after_3)
 ORDER BY pruned.plan_pk, pruned.agent_id, pruned.model, pruned.day LIMIT :most

-- name: export_events
-- The history.
SELECT event.seq AS key_0, event.seq, event.at_us, event.kind, plan.name AS plan, event.task_id, event.fence,
       event.agent_id, event.data
  FROM event LEFT JOIN plan ON plan.pk = event.plan_pk
 WHERE event.seq > :after_0 ORDER BY event.seq LIMIT :most

-- name: import_plan
-- A plan under the next key.
INSERT INTO plan (pk, name, workspace, created_us, retention_us)
VALUES (:pk, :name, :workspace, :created_us, :retention_us)

-- name: import_requirement
-- A capability set.
INSERT INTO requirement (pk, names) VALUES (:pk, :names)

-- name: import_pool
-- A pool; its head is found when all tasks are there.
INSERT INTO pool (pk, plan_pk, requires_pk, paths) VALUES (:pk, :plan_pk, :requires_pk, :paths)

-- name: import_task
-- A task, as if nothing else were on the board yet.
INSERT INTO task (pk, id, plan_pk, title, state, priority, urgency, requires_pk, pool_pk, parents, unmet, fence, opened_fence,
                  opened_us, excused_fence, charged, max_attempts, lease_timeout_us, max_hold_us, not_before_us, created_us, ended_us,
                  estimate_pusd, estimate_tokens, has_body, tags, key, reason)
VALUES (:pk, :id, :plan_pk, :title, :state, :priority, :priority, :requires_pk, :pool_pk, 0, 0, 0, :opened_fence,
        :opened_us, :excused_fence, 0, :max_attempts, :lease_timeout_us, :max_hold_us, :not_before_us, :created_us, :ended_us,
        :estimate_pusd, :estimate_tokens, :has_body, :tags, :key, :reason)

-- name: import_root
-- Because of which task another was cancelled.
UPDATE task SET root_pk = :root_pk WHERE pk = :pk

-- name: import_attempt
-- An attempt. Nobody has its secret: it opens no lease.
INSERT INTO attempt (task_pk, fence, agent_id, secret, charged, holds, started_us, heartbeat_us, lease_expires_us, ended_us,
                     outcome, kind, late, error, retry_at_us)
VALUES (:task_pk, :fence, :agent_id, '', :charged, 0, :started_us, :heartbeat_us, :lease_expires_us, :ended_us,
        :outcome, :kind, :late, :error, :retry_at_us)

-- name: import_note
-- A holder's remark.
INSERT INTO note (task_pk, fence, agent_id, at_us, text) VALUES (:task_pk, :fence, :agent_id, :at_us, :text)

-- name: import_entry
-- An entry of the blackboard, under the next key.
INSERT INTO entry (pk, namespace, key, version, size, content_type, created_us, updated_us, expires_us, agent_id, task_id, fence)
VALUES (:pk, :namespace, :key, :version, :size, :content_type, :created_us, :updated_us, :expires_us, :agent_id, :task_id, :fence)

-- name: import_entry_tombstone
-- How far an entry had counted that is gone.
INSERT INTO entry_tombstone (namespace, key, version, buried_us) VALUES (:namespace, :key, :version, :buried_us)

-- name: import_task_tombstone
-- What is left of a task that was pruned.
INSERT INTO task_tombstone (id, plan_pk, state, fence, pruned_us) VALUES (:id, :plan_pk, :state, :fence, :pruned_us)

-- name: import_usage
-- A usage entry.
INSERT INTO usage_entry (at_us, plan_pk, task_pk, fence, agent_id, model, input_tokens, cached_input_tokens,
                         cache_write_tokens, output_tokens, duration_us, cost_pusd, price, source, origin)
VALUES (:at_us, :plan_pk, :task_pk, :fence, :agent_id, :model, :input_tokens, :cached_input_tokens,
        :cache_write_tokens, :output_tokens, :duration_us, :cost_pusd, :price, :source, :origin)

-- name: import_usage_pruned
-- The sums of usage entries that were pruned.
INSERT INTO usage_pruned (plan_pk, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens,
                          cache_write_tokens, output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd,
                          attempts, held_us)
VALUES (:plan_pk, :agent_id, :model, :day, :entries, :unpriced, :input_tokens, :cached_input_tokens,
        :cache_write_tokens, :output_tokens, :duration_us, :cost_pusd, :wasted_tokens, :wasted_us, :wasted_pusd,
        :attempts, :held_us)

-- name: derive_fences
-- A task's fence counts its attempts, and `charged` those that count since it was last opened.
UPDATE task SET fence = counted.fence, charged = counted.charged
  FROM (SELECT attempt.task_pk, COUNT(*) AS fence,
               SUM(CASE WHEN attempt.charged = 1 AND attempt.fence > held.opened_fence THEN 1 ELSE 0 END) AS charged
          FROM attempt JOIN task AS held ON held.pk = attempt.task_pk GROUP BY attempt.task_pk) AS counted
 WHERE task.pk = counted.task_pk

-- name: derive_edges
-- How many edges a task has, and how many of them hold it.
UPDATE task SET parents = counted.parents, unmet = counted.unmet
  FROM (SELECT edge.child_pk, COUNT(*) AS parents,
               SUM(CASE WHEN parent.state = edge.condition THEN 0
                        WHEN edge.condition = 'finished' AND parent.state IN ('completed', 'failed', 'cancelled') THEN 0
                        ELSE 1 END) AS unmet
          FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk GROUP BY edge.child_pk) AS counted
 WHERE task.pk = counted.child_pk

-- name: derive_tallies
-- How many tasks of each plan stand in each state; the plan's own row stands for the plans that have none.
INSERT INTO tally (plan_pk, blocked, scheduled, pending, in_progress, completed, failed, cancelled)
SELECT plan_pk,
       SUM(CASE WHEN state = 'blocked' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'scheduled' THEN 1 ELSE 0 END),
       SUM(CASE WHEN state = 'pending' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'in_progress' THEN 1 ELSE 0 END),
       SUM(CASE WHEN state = 'completed' THEN 1 ELSE 0 END), SUM(CASE WHEN state = 'failed' THEN 1 ELSE 0 END),
       SUM(CASE WHEN state = 'cancelled' THEN 1 ELSE 0 END)
  FROM (SELECT plan_pk, state FROM task UNION ALL SELECT pk AS plan_pk, '' AS state FROM plan) AS listed
 GROUP BY plan_pk

-- name: derive_pool_heads
-- The most urgent ready task of each pool.
UPDATE pool SET (head_pk, head_urgency) =
       (SELECT MAX(head.pk), MAX(head.urgency)
          FROM (SELECT task.pk, task.urgency FROM task
                 WHERE task.pool_pk = pool.pk AND task.state = 'pending' AND task.paused = 0
                 ORDER BY task.urgency DESC, task.pk LIMIT 1) AS head)

-- name: derive_sources
-- The first entry of each source key; a key whose entries were all pruned keeps none.
UPDATE usage_source SET entry_pk = first.pk
  FROM (SELECT source, MIN(pk) AS pk FROM usage_entry WHERE source IS NOT NULL GROUP BY source) AS first
 WHERE usage_source.source = first.source

-- name: derive_usage_totals
-- The sums of all usage by plan, agent, model and day, with what was pruned; the usage of attempts that ended in vain is waste.
INSERT INTO usage_total (plan_pk, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens,
                         cache_write_tokens, output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd)
SELECT plan_pk, agent_id, model, day, SUM(entries), SUM(unpriced), SUM(input_tokens), SUM(cached_input_tokens),
       SUM(cache_write_tokens), SUM(output_tokens), SUM(duration_us), SUM(cost_pusd), SUM(wasted_tokens), SUM(wasted_us),
       SUM(wasted_pusd)
  FROM (SELECT used.plan_pk, used.agent_id, used.model, used.at_us / 86400000000 AS day, 1 AS entries,
               CASE WHEN used.cost_pusd IS NULL THEN 1 ELSE 0 END AS unpriced, used.input_tokens, used.cached_input_tokens,
               used.cache_write_tokens, used.output_tokens, used.duration_us, COALESCE(used.cost_pusd, 0) AS cost_pusd,
               CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled') THEN used.input_tokens
                    + used.cached_input_tokens + used.cache_write_tokens + used.output_tokens ELSE 0 END AS wasted_tokens,
               CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled') THEN used.duration_us ELSE 0 END AS wasted_us,
               CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled') THEN COALESCE(used.cost_pusd, 0)
                    ELSE 0 END AS wasted_pusd
          FROM usage_entry AS used
          LEFT JOIN attempt ON attempt.task_pk = used.task_pk AND attempt.fence = used.fence
         UNION ALL
        SELECT plan_pk, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens, cache_write_tokens,
               output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd
          FROM usage_pruned WHERE entries > 0) AS used
 GROUP BY plan_pk, agent_id, model, day
