-- name: add_usage
-- An entry of the ledger, if its attempt, where it has one, stands as it was read; nothing ever changes it.
INSERT INTO usage_entry (at_us, plan_pk, task_pk, fence, agent_id, model, input_tokens, cached_input_tokens,
                         cache_write_tokens, output_tokens, duration_us, cost_pusd, price, source, origin)
SELECT :at_us, :plan_pk, CAST(:task_pk AS BIGINT), CAST(:fence AS BIGINT), :agent_id, :model, :input_tokens,
       :cached_input_tokens, :cache_write_tokens, :output_tokens, :duration_us, CAST(:cost_pusd AS BIGINT),
       CAST(:price AS TEXT), CAST(:source AS TEXT), :origin
 WHERE CAST(:fence AS BIGINT) IS NULL
    OR EXISTS (SELECT 1 FROM attempt
                WHERE task_pk = :task_pk AND fence = :fence AND COALESCE(outcome, '') = :outcome)
RETURNING pk

-- name: total_usage
-- The same, added to the total of its plan, agent, model and day.
INSERT INTO usage_total (plan_pk, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens,
                         cache_write_tokens, output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd)
VALUES (:plan_pk, :agent_id, :model, :day, 1, :unpriced, :input_tokens, :cached_input_tokens,
        :cache_write_tokens, :output_tokens, :duration_us, :cost_pusd, :wasted_tokens, :wasted_us, :wasted_pusd)
ON CONFLICT (plan_pk, agent_id, model, day) DO UPDATE SET
       entries = usage_total.entries + 1, unpriced = usage_total.unpriced + excluded.unpriced,
       input_tokens = usage_total.input_tokens + excluded.input_tokens,
       cached_input_tokens = usage_total.cached_input_tokens + excluded.cached_input_tokens,
       cache_write_tokens = usage_total.cache_write_tokens + excluded.cache_write_tokens,
       output_tokens = usage_total.output_tokens + excluded.output_tokens,
       duration_us = usage_total.duration_us + excluded.duration_us,
       cost_pusd = usage_total.cost_pusd + excluded.cost_pusd,
       wasted_tokens = usage_total.wasted_tokens + excluded.wasted_tokens,
       wasted_us = usage_total.wasted_us + excluded.wasted_us,
       wasted_pusd = usage_total.wasted_pusd + excluded.wasted_pusd

-- name: waste_usage
-- What an attempt used becomes waste in the totals.
UPDATE usage_total
   SET wasted_tokens = wasted_tokens + used.tokens, wasted_us = wasted_us + used.us, wasted_pusd = wasted_pusd + used.pusd
  FROM (SELECT plan_pk, agent_id, model, at_us / 86400000000 AS day,
               SUM(input_tokens + cached_input_tokens + cache_write_tokens + output_tokens) AS tokens,
               SUM(duration_us) AS us, SUM(COALESCE(cost_pusd, 0)) AS pusd
          FROM usage_entry WHERE task_pk = :task_pk AND fence = :fence
         GROUP BY plan_pk, agent_id, model, at_us / 86400000000) AS used
 WHERE usage_total.plan_pk = used.plan_pk AND usage_total.agent_id = used.agent_id AND usage_total.model = used.model
   AND usage_total.day = used.day

-- name: account_of_lease
-- A task and one of its attempts, as far as usage goes: a part of `held_attempt` that costs half as much.
SELECT task.pk, task.id, task.plan_pk, plan.name AS plan, task.estimate_pusd, task.estimate_tokens, attempt.fence,
       attempt.agent_id, attempt.secret, attempt.outcome, attempt.reserved_pusd, attempt.reserved_tokens
  FROM task
  JOIN plan ON plan.pk = task.plan_pk
  JOIN attempt ON attempt.task_pk = task.pk AND attempt.fence = :fence
 WHERE task.id = :id

-- name: last_attempt_of_agent
-- The attempt of a task that an agent had last.
SELECT fence, outcome, reserved_pusd, reserved_tokens FROM attempt
 WHERE task_pk = :task_pk AND agent_id = :agent_id ORDER BY fence DESC LIMIT 1

-- name: usage_by_pk
-- One entry of the ledger.
SELECT usage_entry.*, plan.name AS plan, task.id AS task_id, usage_source.entry_pk AS first_pk FROM usage_entry
  LEFT JOIN usage_source ON usage_source.source = usage_entry.source
  LEFT JOIN plan ON plan.pk = usage_entry.plan_pk LEFT JOIN task ON task.pk = usage_entry.task_pk
 WHERE usage_entry.pk = :pk

-- name: usage_after
-- A page of the ledger.
SELECT usage_entry.*, plan.name AS plan, task.id AS task_id, usage_source.entry_pk AS first_pk FROM usage_entry
  LEFT JOIN usage_source ON usage_source.source = usage_entry.source
  LEFT JOIN plan ON plan.pk = usage_entry.plan_pk LEFT JOIN task ON task.pk = usage_entry.task_pk
 WHERE usage_entry.pk > :after ORDER BY usage_entry.pk LIMIT :most

-- name: usage_of_task_after
-- The same of one task.
SELECT usage_entry.*, plan.name AS plan, task.id AS task_id, usage_source.entry_pk AS first_pk FROM usage_entry
  LEFT JOIN usage_source ON usage_source.source = usage_entry.source
  LEFT JOIN plan ON plan.pk = usage_entry.plan_pk JOIN task ON task.pk = usage_entry.task_pk
 WHERE usage_entry.task_pk = :task_pk AND usage_entry.pk > :after ORDER BY usage_entry.pk LIMIT :most

-- name: source_of_usage
-- What has been counted under a source key.
SELECT usage_source.*, plan.name AS plan FROM usage_source LEFT JOIN plan ON plan.pk = usage_source.plan_pk
 WHERE usage_source.source = :source

-- name: add_source
-- A source key and its first entry. A key is never taken away.
INSERT INTO usage_source (source, entry_pk, at_us, plan_pk, agent_id, model, origin, entries, unpriced, input_tokens,
                          cached_input_tokens, cache_write_tokens, output_tokens, duration_us, cost_pusd)
VALUES (:source, :entry_pk, :at_us, :plan_pk, :agent_id, :model, :origin, :entries, :unpriced, :input_tokens,
        :cached_input_tokens, :cache_write_tokens, :output_tokens, :duration_us, :cost_pusd)

-- name: grow_source
-- A further entry of a source key, if the sums stand as they were read.
UPDATE usage_source
   SET entries = entries + 1, unpriced = unpriced + :unpriced, input_tokens = input_tokens + :input_tokens,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens,
       cache_write_tokens = cache_write_tokens + :cache_write_tokens, output_tokens = output_tokens + :output_tokens,
       duration_us = duration_us + :duration_us, cost_pusd = cost_pusd + :cost_pusd
 WHERE source = :source AND entries = :stood

-- name: sum_totals
-- Usage summed by plan, agent, model or day (or all in one, by nothing), from the totals.
SELECT CASE WHEN :by = 'plan' THEN plan_pk ELSE 0 END AS plan_pk,
       CASE WHEN :by = 'agent' THEN agent_id ELSE '' END AS agent_id,
       CASE WHEN :by = 'model' THEN model ELSE '' END AS model,
       CASE WHEN :by = 'day' THEN day ELSE 0 END AS day,
       SUM(entries) AS entries, SUM(unpriced) AS unpriced, SUM(input_tokens) AS input_tokens,
       SUM(cached_input_tokens) AS cached_input_tokens, SUM(cache_write_tokens) AS cache_write_tokens,
       SUM(output_tokens) AS output_tokens, SUM(duration_us) AS duration_us, SUM(cost_pusd) AS cost_pusd,
       SUM(wasted_tokens) AS wasted_tokens, SUM(wasted_us) AS wasted_us, SUM(wasted_pusd) AS wasted_pusd
  FROM usage_total
 WHERE (CAST(:plan_pk AS BIGINT) IS NULL OR plan_pk = :plan_pk)
   AND (CAST(:agent_id AS TEXT) IS NULL OR agent_id = :agent_id)
   AND (CAST(:model AS TEXT) IS NULL OR model = :model)
   AND day >= :first_day AND day <= :last_day
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4

-- name: sum_entries
-- Usage summed by plan, task, attempt, agent, model or day (or any other slot of time), or all in one, from the entries;
-- only those of tasks, or all.
SELECT CASE WHEN :by = 'plan' THEN usage_entry.plan_pk ELSE 0 END AS plan_pk,
       CASE WHEN :by IN ('task', 'attempt') THEN usage_entry.task_pk END AS task_pk,
       CASE WHEN :by = 'attempt' THEN usage_entry.fence END AS fence,
       CASE WHEN :by = 'agent' THEN usage_entry.agent_id ELSE '' END AS agent_id,
       CASE WHEN :by = 'model' THEN usage_entry.model ELSE '' END AS model,
       CASE WHEN :by = 'day' THEN usage_entry.at_us / :slot_us ELSE 0 END AS day,
       COUNT(*) AS entries,
       SUM(CASE WHEN usage_entry.cost_pusd IS NULL THEN 1 ELSE 0 END) AS unpriced,
       SUM(usage_entry.input_tokens) AS input_tokens, SUM(usage_entry.cached_input_tokens) AS cached_input_tokens,
       SUM(usage_entry.cache_write_tokens) AS cache_write_tokens, SUM(usage_entry.output_tokens) AS output_tokens,
       SUM(usage_entry.duration_us) AS duration_us, SUM(COALESCE(usage_entry.cost_pusd, 0)) AS cost_pusd,
       SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                THEN usage_entry.input_tokens + usage_entry.cached_input_tokens + usage_entry.cache_write_tokens
                     + usage_entry.output_tokens ELSE 0 END) AS wasted_tokens,
       SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                THEN usage_entry.duration_us ELSE 0 END) AS wasted_us,
       SUM(CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                THEN COALESCE(usage_entry.cost_pusd, 0) ELSE 0 END) AS wasted_pusd
  FROM usage_entry
  LEFT JOIN attempt ON attempt.task_pk = usage_entry.task_pk AND attempt.fence = usage_entry.fence
 WHERE (:every = 1 OR usage_entry.task_pk IS NOT NULL)
   AND (CAST(:task_pk AS BIGINT) IS NULL OR usage_entry.task_pk = :task_pk)
   AND (CAST(:plan_pk AS BIGINT) IS NULL OR usage_entry.plan_pk = :plan_pk)
   AND (CAST(:agent_id AS TEXT) IS NULL OR usage_entry.agent_id = :agent_id)
   AND (CAST(:model AS TEXT) IS NULL OR usage_entry.model = :model)
   AND usage_entry.at_us >= :from_us AND usage_entry.at_us < :to_us
 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6

-- name: sum_attempts
-- How many attempts there were, how long they were held (for no time, where the clock was set back meanwhile), and how
-- many completed without a word on their usage.
SELECT CASE WHEN :by = 'plan' THEN task.plan_pk ELSE 0 END AS plan_pk,
       CASE WHEN :by IN ('task', 'attempt') THEN attempt.task_pk END AS task_pk,
       CASE WHEN :by = 'attempt' THEN attempt.fence END AS fence,
       CASE WHEN :by = 'agent' THEN attempt.agent_id ELSE '' END AS agent_id,
       CASE WHEN :by = 'day' THEN attempt.started_us / :slot_us ELSE 0 END AS day,
       COUNT(*) AS attempts,
       SUM(CASE WHEN COALESCE(attempt.ended_us, :now_us) > attempt.started_us
                THEN COALESCE(attempt.ended_us, :now_us) - attempt.started_us ELSE 0 END) AS held_us,
       SUM(CASE WHEN attempt.outcome = 'completed' AND NOT EXISTS
                (SELECT 1 FROM usage_entry WHERE usage_entry.task_pk = attempt.task_pk AND usage_entry.fence = attempt.fence)
                THEN 1 ELSE 0 END) AS unreported
  FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE (CAST(:task_pk AS BIGINT) IS NULL OR attempt.task_pk = :task_pk)
   AND (CAST(:plan_pk AS BIGINT) IS NULL OR task.plan_pk = :plan_pk)
   AND (CAST(:agent_id AS TEXT) IS NULL OR attempt.agent_id = :agent_id)
   AND attempt.started_us >= :from_us AND attempt.started_us < :to_us
 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5

-- name: sum_pruned_attempts
-- The same of attempts whose tasks were pruned away.
SELECT CASE WHEN :by = 'plan' THEN plan_pk ELSE 0 END AS plan_pk,
       CASE WHEN :by = 'agent' THEN agent_id ELSE '' END AS agent_id,
       CASE WHEN :by = 'day' THEN day ELSE 0 END AS day,
       SUM(attempts) AS attempts, SUM(held_us) AS held_us
  FROM usage_pruned
 WHERE attempts > 0
   AND (CAST(:plan_pk AS BIGINT) IS NULL OR plan_pk = :plan_pk)
   AND (CAST(:agent_id AS TEXT) IS NULL OR agent_id = :agent_id)
   AND day >= :first_day AND day <= :last_day
 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3

-- name: sum_pruned
-- What was pruned, usage and attempts, summed by UTC day and by plan, agent or model.
SELECT CASE WHEN :by = 'plan' THEN plan_pk ELSE 0 END AS plan_pk,
       CASE WHEN :by = 'agent' THEN agent_id ELSE '' END AS agent_id,
       CASE WHEN :by = 'model' THEN model ELSE '' END AS model,
       day AS utc_day,
       SUM(entries) AS entries, SUM(unpriced) AS unpriced, SUM(input_tokens) AS input_tokens,
       SUM(cached_input_tokens) AS cached_input_tokens, SUM(cache_write_tokens) AS cache_write_tokens,
       SUM(output_tokens) AS output_tokens, SUM(duration_us) AS duration_us, SUM(cost_pusd) AS cost_pusd,
       SUM(wasted_tokens) AS wasted_tokens, SUM(wasted_us) AS wasted_us, SUM(wasted_pusd) AS wasted_pusd,
       SUM(attempts) AS attempts, SUM(held_us) AS held_us
  FROM usage_pruned
 WHERE (CAST(:plan_pk AS BIGINT) IS NULL OR plan_pk = :plan_pk)
   AND (CAST(:agent_id AS TEXT) IS NULL OR agent_id = :agent_id)
   AND (CAST(:model AS TEXT) IS NULL OR model = :model)
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4

-- name: plan_by_pk
-- The name of a plan.
SELECT name FROM plan WHERE pk = :pk
