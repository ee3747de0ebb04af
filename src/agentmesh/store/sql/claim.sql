-- name: pulse
-- What a claim must know first: what is due, whether anything bounds hand-outs, whether tasks with paths are ready.
SELECT (SELECT lease_expires_us FROM attempt WHERE outcome IS NULL ORDER BY lease_expires_us, task_pk LIMIT 1) AS lease_due_us,
       (SELECT not_before_us FROM task WHERE state = 'scheduled' AND paused = 0 ORDER BY not_before_us, pk LIMIT 1) AS scheduled_due_us,
       (SELECT until_us FROM task_pause WHERE until_us IS NOT NULL ORDER BY until_us, task_pk LIMIT 1) AS pause_due_us,
       CASE WHEN EXISTS (SELECT 1 FROM pause WHERE until_us IS NULL OR until_us > :now_us) OR EXISTS (SELECT 1 FROM budget) OR EXISTS (SELECT 1 FROM claim_cap)
              OR EXISTS (SELECT 1 FROM breaker WHERE open_until_us > :now_us) THEN 1 ELSE 0 END AS bounded,
       (SELECT MAX(pk) FROM requirement) AS newest_requirement,
       (SELECT pk FROM pool WHERE head_pk IS NOT NULL AND lot_pk IS NULL
         ORDER BY requires_pk, head_urgency DESC, head_pk LIMIT 1) AS ready_pool,
       (SELECT pk FROM lot WHERE is_open = 1 ORDER BY pk LIMIT 1) AS open_lot

-- name: pick_ready
-- The most urgent ready task without paths for one capability set; ties break by age. Where budgets bound hand-outs, its
-- estimates must fit into what they leave, and no budget of its own may bar it.
SELECT candidate.pk, candidate.urgency, candidate.plan_pk, candidate.estimate_pusd, candidate.estimate_tokens
  FROM task AS candidate
 WHERE candidate.requires_pk = :requires_pk AND candidate.state = 'pending' AND candidate.pool_pk IS NULL AND candidate.paused = 0
   AND NOT EXISTS (SELECT 1 FROM aversion
                    WHERE aversion.task_pk = candidate.pk AND aversion.agent_id = :agent_id AND aversion.until_us > :now_us)
   AND (CAST(:room_pusd AS BIGINT) IS NULL
        OR (COALESCE(candidate.estimate_pusd, 0) <= :room_pusd AND COALESCE(candidate.estimate_tokens, 0) <= :room_tokens
            AND NOT EXISTS (SELECT 1 FROM budget
                             WHERE budget.task_pk = candidate.pk AND budget.barred_until_us > :now_us
                               AND budget.day * 86400000000 <= :now_us)))
 ORDER BY candidate.urgency DESC, candidate.pk
 LIMIT 1 /*skip_locked*/

-- name: pick_plan_ready
-- The same within one plan.
SELECT candidate.pk, candidate.urgency
  FROM task AS candidate
 WHERE candidate.plan_pk = :plan_pk
   AND candidate.requires_pk = :requires_pk AND candidate.state = 'pending' AND candidate.pool_pk IS NULL AND candidate.paused = 0
   AND NOT EXISTS (SELECT 1 FROM aversion
                    WHERE aversion.task_pk = candidate.pk AND aversion.agent_id = :agent_id AND aversion.until_us > :now_us)
   AND (CAST(:room_pusd AS BIGINT) IS NULL
        OR (COALESCE(candidate.estimate_pusd, 0) <= :room_pusd AND COALESCE(candidate.estimate_tokens, 0) <= :room_tokens
            AND NOT EXISTS (SELECT 1 FROM budget
                             WHERE budget.task_pk = candidate.pk AND budget.barred_until_us > :now_us
                               AND budget.day * 86400000000 <= :now_us)))
 ORDER BY candidate.urgency DESC, candidate.pk
 LIMIT 1 /*skip_locked*/

-- name: pick_in_pool
-- The most urgent ready task of one pool.
SELECT candidate.pk, candidate.urgency
  FROM task AS candidate
 WHERE candidate.pool_pk = :pool_pk AND candidate.state = 'pending' AND candidate.paused = 0
   AND NOT EXISTS (SELECT 1 FROM aversion
                    WHERE aversion.task_pk = candidate.pk AND aversion.agent_id = :agent_id AND aversion.until_us > :now_us)
   AND (CAST(:room_pusd AS BIGINT) IS NULL
        OR (COALESCE(candidate.estimate_pusd, 0) <= :room_pusd AND COALESCE(candidate.estimate_tokens, 0) <= :room_tokens
            AND NOT EXISTS (SELECT 1 FROM budget
                             WHERE budget.task_pk = candidate.pk AND budget.barred_until_us > :now_us
                               AND budget.day * 86400000000 <= :now_us)))
 ORDER BY candidate.urgency DESC, candidate.pk
 LIMIT 1 /*skip_locked*/

-- name: pick_tagged
-- A page of the ready tasks that carry a tag, most urgent first; the caller weighs the rest of its wishes.
SELECT candidate.pk, candidate.urgency, candidate.requires_pk, candidate.plan_pk, candidate.pool_pk, candidate.tags,
       candidate.estimate_pusd, candidate.estimate_tokens,
       CASE WHEN EXISTS (SELECT 1 FROM budget
                          WHERE budget.task_pk = candidate.pk AND budget.barred_until_us > :now_us
                            AND budget.day * 86400000000 <= :now_us)
            THEN 1 ELSE 0 END AS barred
  FROM task_tag
  JOIN task AS candidate ON candidate.pk = task_tag.task_pk
 WHERE task_tag.tag = :tag AND candidate.state = 'pending' AND candidate.paused = 0
   AND (candidate.urgency < :urgency OR (candidate.urgency = :urgency AND candidate.pk > :pk))
   AND NOT EXISTS (SELECT 1 FROM aversion
                    WHERE aversion.task_pk = candidate.pk AND aversion.agent_id = :agent_id AND aversion.until_us > :now_us)
 ORDER BY candidate.urgency DESC, candidate.pk
 LIMIT 50

-- name: requirements_after
-- Capability sets that a reader does not know yet.
SELECT pk, names FROM requirement WHERE pk > :pk ORDER BY pk

-- name: open_attempt
-- Hand a task out.
INSERT INTO attempt (task_pk, fence, agent_id, secret, charged, holds, started_us, heartbeat_us, lease_expires_us,
                     reserved_pusd, reserved_tokens)
VALUES (:task_pk, :fence, :agent_id, :secret, 1, :holds, :now_us, :now_us, :lease_expires_us,
        :reserved_pusd, :reserved_tokens)

-- name: due_attempts
-- Open attempts whose lease is due, longest due first.
SELECT task.id, attempt.fence, attempt.holds, attempt.reserved_pusd, attempt.reserved_tokens
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.outcome IS NULL AND attempt.lease_expires_us <= :now_us
 ORDER BY attempt.lease_expires_us, attempt.task_pk
 LIMIT :most

-- name: due_scheduled
-- Tasks whose time has come.
SELECT pk, id FROM task
 WHERE state = 'scheduled' AND paused = 0 AND not_before_us <= :now_us
 ORDER BY not_before_us, pk
 LIMIT :most

-- name: see_agent
-- Remember what an agent said it can do, and when it was last here.
INSERT INTO agent (agent_id, capabilities, seen_us) VALUES (:agent_id, :capabilities, :now_us)
ON CONFLICT (agent_id) DO UPDATE SET capabilities = excluded.capabilities, seen_us = excluded.seen_us

-- name: agents
-- Every agent that has asked for work since an instant.
SELECT agent_id, capabilities, seen_us FROM agent WHERE seen_us >= :since_us ORDER BY agent_id

-- name: own_open_attempts
-- The open attempts of an agent, oldest first.
SELECT task.id, attempt.fence
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.outcome IS NULL AND attempt.agent_id = :agent_id
 ORDER BY attempt.started_us, attempt.task_pk

-- name: next_aversion
-- When the next of the tasks that an agent released may be offered to it again.
SELECT MIN(until_us) AS until_us FROM aversion WHERE agent_id = :agent_id AND until_us > :now_us

-- name: averted
-- Whether an agent is not to be offered a task for a while.
SELECT until_us FROM aversion WHERE task_pk = :task_pk AND agent_id = :agent_id AND until_us > :now_us

-- name: avert
-- Do not offer a task to an agent for a while.
INSERT INTO aversion (task_pk, agent_id, until_us) VALUES (:task_pk, :agent_id, :until_us)
ON CONFLICT (task_pk, agent_id) DO UPDATE SET until_us = excluded.until_us

-- name: sweep_aversions
-- Forget those that are over, a few at a time.
DELETE FROM aversion WHERE (task_pk, agent_id) IN
       (SELECT task_pk, agent_id FROM aversion WHERE until_us <= :now_us ORDER BY until_us, task_pk, agent_id LIMIT 10)
