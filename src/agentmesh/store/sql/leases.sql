-- name: held_attempt
-- A task and one of its attempts, as its holder names them.
SELECT task_view.*, attempt.fence AS attempt_fence, attempt.agent_id, attempt.secret, attempt.outcome, attempt.holds, attempt.late,
       attempt.charged AS attempt_charged, attempt.reserved_pusd, attempt.reserved_tokens, attempt.started_us, attempt.heartbeat_us,
       attempt.lease_expires_us AS expires_us, CASE WHEN EXISTS (SELECT 1 FROM claim_cap) THEN 1 ELSE 0 END AS capped
  FROM task_view
  JOIN attempt ON attempt.task_pk = task_view.pk AND attempt.fence = :fence
 WHERE task_view.id = :id

-- name: renew_attempt
-- Push the end of a lease out.
UPDATE attempt SET heartbeat_us = :heartbeat_us, lease_expires_us = :lease_expires_us
 WHERE task_pk = :task_pk AND fence = :fence AND outcome IS NULL

-- name: resume_attempt
-- Give the holder of an open attempt a new secret; the old one is worthless from here on.
UPDATE attempt SET secret = :secret, heartbeat_us = :heartbeat_us, lease_expires_us = :lease_expires_us
 WHERE task_pk = :task_pk AND fence = :fence AND outcome IS NULL

-- name: end_attempt
-- Close an open attempt; what it had reserved ends with it.
UPDATE attempt SET outcome = :outcome, ended_us = :now_us, charged = :charged, kind = :kind, late = :late, error = :error,
                   retry_at_us = :retry_at_us, reserved_pusd = 0, reserved_tokens = 0
 WHERE task_pk = :task_pk AND fence = :fence AND outcome IS NULL
   AND reserved_pusd = :reserved_pusd AND reserved_tokens = :reserved_tokens

-- name: count_holds
-- Note that a running attempt holds more paths.
UPDATE attempt SET holds = holds + :more WHERE task_pk = :task_pk AND fence = :fence AND outcome IS NULL

-- name: count_ends
-- How many attempts of a task after a fence ended in one way.
SELECT COUNT(*) AS ends FROM attempt
 WHERE task_pk = :task_pk AND fence > :after AND outcome = :outcome
   AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)

-- name: excuse_attempts
-- Give back every charge since the task was opened, but for those of its own failures.
UPDATE attempt SET charged = 0
 WHERE task_pk = :task_pk AND fence > :opened_fence AND charged = 1 AND outcome IS NOT NULL
   AND NOT (outcome = 'failed' AND kind = 'task')

-- name: excuse_task
-- A ceiling was reached: the counts toward it begin again after this attempt.
UPDATE task SET charged = charged - :refunded, excused_fence = fence WHERE pk = :pk

-- name: attempts_of
-- Every hand-out of a task.
SELECT attempt.fence, attempt.agent_id, attempt.charged, attempt.started_us, attempt.heartbeat_us,
       attempt.lease_expires_us, attempt.ended_us, attempt.outcome, attempt.kind, attempt.late, attempt.error, attempt.retry_at_us
  FROM attempt WHERE attempt.task_pk = :task_pk ORDER BY attempt.fence

-- name: add_note
-- A holder's remark.
INSERT INTO note (task_pk, fence, agent_id, at_us, text) VALUES (:task_pk, :fence, :agent_id, :now_us, :text)
RETURNING pk

-- name: notes_of
-- The remarks on a task.
SELECT fence, agent_id, at_us, text FROM note WHERE task_pk = :task_pk ORDER BY pk

-- name: note_by_pk
-- One remark.
SELECT fence, agent_id, at_us, text FROM note WHERE pk = :pk

-- name: put_result
-- What a task's last completed attempt left behind.
INSERT INTO result (task_pk, body) VALUES (:task_pk, :body)
ON CONFLICT (task_pk) DO UPDATE SET body = excluded.body

-- name: result_of
-- A task's result.
SELECT body FROM result WHERE task_pk = :task_pk

-- name: drop_result
-- A completion without a result leaves none of an earlier one.
DELETE FROM result WHERE task_pk = :task_pk

-- name: dependency_results
-- What the finished parents of a task left behind.
SELECT parent.id, parent.title, parent.state, result.body
  FROM edge
  JOIN task AS parent ON parent.pk = edge.parent_pk
  LEFT JOIN result ON result.task_pk = parent.pk AND parent.state = 'completed'
 WHERE edge.child_pk = :task_pk AND parent.state IN ('completed', 'failed', 'cancelled')
 ORDER BY edge.parent_pk

-- name: attempt_of
-- One hand-out of a task.
SELECT attempt.fence, attempt.agent_id, attempt.charged, attempt.started_us, attempt.heartbeat_us,
       attempt.lease_expires_us, attempt.ended_us, attempt.outcome, attempt.kind, attempt.late, attempt.error, attempt.retry_at_us
  FROM attempt JOIN task ON task.pk = attempt.task_pk WHERE task.id = :id AND attempt.fence = :fence
