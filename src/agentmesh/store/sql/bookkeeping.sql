-- name: count_states
-- Add to a plan's counts.
INSERT INTO tally (plan_pk, blocked, scheduled, pending, in_progress, completed, failed, cancelled)
VALUES (:plan_pk, :blocked, :scheduled, :pending, :in_progress, :completed, :failed, :cancelled)
ON CONFLICT (plan_pk) DO UPDATE SET
       blocked = tally.blocked + excluded.blocked, scheduled = tally.scheduled + excluded.scheduled,
       pending = tally.pending + excluded.pending, in_progress = tally.in_progress + excluded.in_progress,
       completed = tally.completed + excluded.completed, failed = tally.failed + excluded.failed,
       cancelled = tally.cancelled + excluded.cancelled

-- name: add_event
-- One row of history.
INSERT INTO event (at_us, kind, plan_pk, task_id, fence, agent_id, data)
VALUES (:now_us, :kind, :plan_pk, :task_id, :fence, :agent_id, :data)

-- name: events_after
-- A page of history.
SELECT event.seq, event.at_us, event.kind, plan.name AS plan, event.task_id, event.fence, event.agent_id, event.data
  FROM event LEFT JOIN plan ON plan.pk = event.plan_pk
 WHERE event.seq > :after ORDER BY event.seq LIMIT :most

-- name: event_bounds
-- The oldest and the newest event kept.
SELECT (SELECT seq FROM event ORDER BY seq LIMIT 1) AS first, (SELECT seq FROM event ORDER BY seq DESC LIMIT 1) AS last

-- name: newest_instant
-- The latest instant of the last hundred thousand events; it lies ahead of the clock if that was set back.
SELECT MAX(at_us) AS at_us FROM (SELECT at_us FROM event ORDER BY seq DESC LIMIT 100000) AS last

-- name: request_of
-- A call that an agent made before.
SELECT digest, reply, created_us FROM request WHERE agent_id = :agent_id AND request_id = :request_id

-- name: put_request
-- Remember a call and where its reply is to be found.
INSERT INTO request (agent_id, request_id, digest, reply, created_us)
VALUES (:agent_id, :request_id, :digest, :reply, :now_us)
ON CONFLICT (agent_id, request_id) DO UPDATE SET
       digest = excluded.digest, reply = excluded.reply, created_us = excluded.created_us

-- name: sweep_requests
-- Forget calls that are too old to be repeated by the clock, and by the newest event, too: one instant that is wrong forgets
-- none. Two at a time, twice as many as come: a clock that is wrong for an hour ages them by two at most.
DELETE FROM request WHERE (agent_id, request_id) IN
       (SELECT agent_id, request_id FROM request
         WHERE created_us < :before_us
           AND created_us < (SELECT at_us FROM event ORDER BY seq DESC LIMIT 1) - :kept_us
         ORDER BY created_us, agent_id, request_id LIMIT 2)

-- name: tallies
-- The counts of every plan.
SELECT plan.name AS plan, plan.workspace, plan.retention_us, tally.* FROM tally JOIN plan ON plan.pk = tally.plan_pk ORDER BY tally.plan_pk

-- name: tally_of
-- The counts of one plan.
SELECT tally.* FROM tally WHERE plan_pk = :plan_pk

-- name: tally_totals
-- The counts of the board.
SELECT SUM(blocked) AS blocked, SUM(scheduled) AS scheduled, SUM(pending) AS pending, SUM(in_progress) AS in_progress,
       SUM(completed) AS completed, SUM(failed) AS failed, SUM(cancelled) AS cancelled FROM tally

-- name: plans_with_ready
-- Plans that have ready tasks.
SELECT tally.plan_pk, plan.name FROM tally JOIN plan ON plan.pk = tally.plan_pk WHERE tally.pending > 0 ORDER BY tally.plan_pk

-- name: pauses
-- The pauses of the board, of plans and of agents that last.
SELECT scope, name, reason, agent_id, since_us, until_us, CAST(NULL AS TEXT) AS ceiling
  FROM pause WHERE until_us IS NULL OR until_us > :now_us ORDER BY scope, name

-- name: add_pause
-- Stop hand-outs; a second pause of the same changes something only if it lasts longer.
INSERT INTO pause (scope, name, reason, agent_id, since_us, until_us)
VALUES (:scope, :name, :reason, :agent_id, :now_us, :until_us)
ON CONFLICT (scope, name) DO UPDATE SET
       reason = excluded.reason, agent_id = excluded.agent_id, until_us = excluded.until_us
 WHERE pause.until_us IS NOT NULL AND (excluded.until_us IS NULL OR excluded.until_us > pause.until_us)

-- name: drop_pause
-- Let hand-outs go on.
DELETE FROM pause WHERE scope = :scope AND name = :name

-- name: sweep_pauses
-- Forget the pauses of the board, of plans and of agents that have ended.
DELETE FROM pause WHERE until_us <= :now_us

-- name: add_task_pause
-- Pause a task; a second pause changes something only if it lasts longer, or if a ceiling was reached.
INSERT INTO task_pause (task_pk, reason, agent_id, since_us, until_us, ceiling)
VALUES (:task_pk, :reason, :agent_id, :now_us, :until_us, :ceiling)
ON CONFLICT (task_pk) DO UPDATE SET
       reason = excluded.reason, agent_id = excluded.agent_id, until_us = excluded.until_us, ceiling = excluded.ceiling
 WHERE excluded.ceiling IS NOT NULL
    OR (task_pause.until_us IS NOT NULL AND (excluded.until_us IS NULL OR excluded.until_us > task_pause.until_us))

-- name: drop_task_pause
-- End the pause of a task.
DELETE FROM task_pause WHERE task_pk = :task_pk

-- name: mark_paused
-- Take a task out of the indexes of ready tasks, or put it back.
UPDATE task SET paused = :paused WHERE pk = :pk

-- name: task_pause_of
-- The pause of a task, over or not.
SELECT 'task' AS scope, task.id AS name, task_pause.reason, task_pause.agent_id, task_pause.since_us, task_pause.until_us,
       task_pause.ceiling
  FROM task_pause JOIN task ON task.pk = task_pause.task_pk WHERE task_pause.task_pk = :task_pk

-- name: task_pauses
-- The first pauses of tasks.
SELECT 'task' AS scope, task.id AS name, task_pause.reason, task_pause.agent_id, task_pause.since_us, task_pause.until_us,
       task_pause.ceiling
  FROM task_pause JOIN task ON task.pk = task_pause.task_pk
 WHERE task_pause.until_us IS NULL OR task_pause.until_us > :now_us ORDER BY task_pause.task_pk LIMIT :most

-- name: due_pauses
-- Tasks whose pause has ended.
SELECT task.pk, task.id FROM task_pause JOIN task ON task.pk = task_pause.task_pk
 WHERE task_pause.until_us <= :now_us ORDER BY task_pause.until_us, task_pause.task_pk LIMIT :most

-- name: count_paused
-- How many ready and scheduled tasks are paused, of the board or of one plan.
SELECT (SELECT COUNT(*) FROM task WHERE paused = 1 AND state = 'pending'
           AND (CAST(:plan_pk AS BIGINT) IS NULL OR plan_pk = :plan_pk)) AS pending,
       (SELECT COUNT(*) FROM task WHERE paused = 1 AND state = 'scheduled'
           AND (CAST(:plan_pk AS BIGINT) IS NULL OR plan_pk = :plan_pk)) AS scheduled

-- name: count_paused_tasks
-- How many tasks are paused.
SELECT (SELECT COUNT(*) FROM task_pause)
       - (SELECT COUNT(*) FROM task_pause WHERE until_us IS NOT NULL AND until_us <= :now_us) AS paused

-- name: count_due
-- How many leases are due and not yet reclaimed.
SELECT COUNT(*) AS due FROM attempt WHERE outcome IS NULL AND lease_expires_us <= :now_us

-- name: count_attempts
-- How many attempts there were, and how many of them are open.
SELECT COUNT(*) AS attempts, COUNT(*) - COUNT(outcome) AS open FROM attempt

-- name: count_kept
-- How many calls are remembered, how many usage entries there are, how many tasks were pruned.
SELECT (SELECT COUNT(*) FROM request) AS requests, (SELECT COUNT(*) FROM usage_entry) AS usage_entries,
       (SELECT COUNT(*) FROM task_tombstone) AS task_tombstones

-- name: next_instant
-- When time alone changes something next, whoever asks: a lease, a start, an entry, a storm, the end of a pause.
SELECT (SELECT lease_expires_us FROM attempt WHERE outcome IS NULL AND lease_expires_us > :now_us
         ORDER BY lease_expires_us, task_pk LIMIT 1) AS lease_us,
       (SELECT not_before_us FROM task WHERE state = 'scheduled' AND paused = 0 AND not_before_us > :now_us
         ORDER BY not_before_us, pk LIMIT 1) AS scheduled_us,
       (SELECT expires_us FROM entry WHERE expires_us IS NOT NULL AND expires_us > :now_us
         ORDER BY expires_us, pk LIMIT 1) AS entry_us,
       (SELECT MIN(open_until_us) FROM breaker WHERE open_until_us > :now_us) AS storm_us,
       (SELECT MIN(until_us) FROM pause WHERE until_us > :now_us) AS pause_us,
       (SELECT until_us FROM task_pause WHERE until_us IS NOT NULL AND until_us > :now_us
         ORDER BY until_us, task_pk LIMIT 1) AS task_pause_us
