-- name: budgets_over
-- The budgets that an attempt falls under.
SELECT * FROM budget
 WHERE (scope = 'board' AND name = '') OR (scope = 'plan' AND name = :plan) OR (scope = 'task' AND name = :task_id)
    OR (scope = 'agent' AND name = :agent_id)
 ORDER BY pk

-- name: budgets_before
-- The budgets that say what an agent may be handed out at all: its own, the board's, and those of plans with ready tasks.
SELECT * FROM budget
 WHERE (scope = 'board' AND name = '') OR (scope = 'agent' AND name = :agent_id)
    OR (scope = 'plan' AND EXISTS (SELECT 1 FROM plan JOIN tally ON tally.plan_pk = plan.pk
                                    WHERE plan.name = budget.name AND tally.pending > 0))
 ORDER BY pk

-- name: all_budgets
-- Every budget.
SELECT * FROM budget ORDER BY scope, name, period

-- name: budget_named
-- One budget.
SELECT * FROM budget WHERE scope = :scope AND name = :name AND period = :period

-- name: put_budget
-- Set a budget's limits; its books follow.
INSERT INTO budget (scope, name, period, limit_pusd, limit_tokens, strict, day, spent_pusd, spent_tokens, unpriced,
                    reserved_pusd, reserved_tokens, warned, task_pk, barred_until_us)
VALUES (:scope, :name, :period, :limit_pusd, :limit_tokens, :strict, 0, 0, 0, 0, 0, 0, 0, :task_pk, 0)
ON CONFLICT (scope, name, period) DO UPDATE SET
       limit_pusd = excluded.limit_pusd, limit_tokens = excluded.limit_tokens, strict = excluded.strict

-- name: book_budget
-- Write a budget's books.
UPDATE budget SET day = :day, spent_pusd = :spent_pusd, spent_tokens = :spent_tokens, unpriced = :unpriced,
                  reserved_pusd = :reserved_pusd, reserved_tokens = :reserved_tokens, warned = :warned,
                  barred_until_us = :barred_until_us
 WHERE pk = :pk

-- name: drop_budget
-- Take a budget away.
DELETE FROM budget WHERE scope = :scope AND name = :name AND period = :period

-- name: spent_of_scope
-- What a board, plan or agent has spent, in all or on some days.
SELECT COALESCE(SUM(cost_pusd), 0) AS spent_pusd,
       COALESCE(SUM(input_tokens + cached_input_tokens + cache_write_tokens + output_tokens), 0) AS spent_tokens,
       COALESCE(SUM(unpriced), 0) AS unpriced
  FROM usage_total
 WHERE (CAST(:plan AS TEXT) IS NULL OR plan_pk = (SELECT pk FROM plan WHERE name = :plan))
   AND (CAST(:agent AS TEXT) IS NULL OR agent_id = :agent)
   AND day >= :first_day AND day <= :last_day

-- name: spent_of_task
-- What a task has spent, in all or on some days.
SELECT COALESCE(SUM(cost_pusd), 0) AS spent_pusd,
       COALESCE(SUM(input_tokens + cached_input_tokens + cache_write_tokens + output_tokens), 0) AS spent_tokens,
       COALESCE(SUM(CASE WHEN cost_pusd IS NULL THEN 1 ELSE 0 END), 0) AS unpriced
  FROM usage_entry
 WHERE task_pk = :task_pk AND at_us / 86400000000 >= :first_day AND at_us / 86400000000 <= :last_day

-- name: reserved_of_scope
-- What open attempts have reserved.
SELECT COALESCE(SUM(attempt.reserved_pusd), 0) AS reserved_pusd, COALESCE(SUM(attempt.reserved_tokens), 0) AS reserved_tokens
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.outcome IS NULL
   AND (CAST(:task_pk AS BIGINT) IS NULL OR attempt.task_pk = :task_pk)
   AND (CAST(:plan AS TEXT) IS NULL OR task.plan_pk = (SELECT pk FROM plan WHERE name = :plan))
   AND (CAST(:agent AS TEXT) IS NULL OR attempt.agent_id = :agent)

-- name: draw_reservation
-- Usage has come in: so much less of an attempt's reservation is open.
UPDATE attempt SET reserved_pusd = reserved_pusd - :pusd, reserved_tokens = reserved_tokens - :tokens
 WHERE task_pk = :task_pk AND fence = :fence AND outcome IS NULL
   AND reserved_pusd = :reserved_pusd AND reserved_tokens = :reserved_tokens

-- name: caps_over
-- How many tasks an agent may hold at once: its own cap, and that of everybody.
SELECT agent_id, most FROM claim_cap WHERE agent_id IN ('', :agent_id) ORDER BY agent_id DESC

-- name: all_caps
-- Every cap.
SELECT agent_id, most FROM claim_cap ORDER BY agent_id

-- name: put_cap
-- Set a cap.
INSERT INTO claim_cap (agent_id, most) VALUES (:agent_id, :most)
ON CONFLICT (agent_id) DO UPDATE SET most = excluded.most

-- name: drop_cap
-- Take a cap away.
DELETE FROM claim_cap WHERE agent_id = :agent_id

-- name: count_held
-- How many tasks an agent holds whose leases are not due.
SELECT COUNT(*) AS held FROM attempt
 WHERE outcome IS NULL AND agent_id = :agent_id AND lease_expires_us > :now_us

-- name: breaker_of
-- The last storm of failures of a plan.
SELECT storms, open_until_us, since_us, length_us FROM breaker WHERE plan_pk = :plan_pk

-- name: count_failures
-- How many attempts of a plan have failed for want of infrastructure or quota since an instant, and until when to wait.
SELECT COUNT(*) AS failures, MAX(attempt.retry_at_us) AS retry_at_us FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.kind IN ('infra', 'quota') AND attempt.ended_us >= :since_us AND attempt.ended_us <= :now_us
   AND task.plan_pk = :plan_pk

-- name: open_breakers
-- Plans whose hand-outs pause after a storm of failures.
SELECT plan.name, breaker.storms, breaker.open_until_us, breaker.length_us
  FROM breaker JOIN plan ON plan.pk = breaker.plan_pk
 WHERE breaker.open_until_us > :now_us ORDER BY breaker.plan_pk

-- name: open_breaker
-- Pause a plan's hand-outs; what fails before they go on counts for no other storm.
INSERT INTO breaker (plan_pk, storms, open_until_us, since_us, length_us)
VALUES (:plan_pk, :storms, :open_until_us, :open_until_us, :length_us)
ON CONFLICT (plan_pk) DO UPDATE SET storms = excluded.storms, open_until_us = excluded.open_until_us,
       since_us = excluded.since_us, length_us = excluded.length_us

-- name: close_breaker
-- Let a plan's hand-outs go on as if no storm had been; what has failed by now counts no more.
UPDATE breaker SET storms = 0, open_until_us = :now_us, since_us = :now_us + 1
 WHERE plan_pk = :plan_pk AND open_until_us > :now_us
