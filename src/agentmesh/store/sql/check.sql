-- name: check_p1_two_owners
-- Tasks with more than one open attempt.
SELECT task.id FROM task JOIN attempt ON attempt.task_pk = task.pk AND attempt.outcome IS NULL
 GROUP BY task.id HAVING COUNT(*) > 1 ORDER BY task.id

-- name: check_p1_owner
-- Tasks that are in progress without an open attempt of their fence, or the other way round.
SELECT task.id FROM task
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.fence = task.fence AND attempt.outcome IS NULL
 WHERE (task.state = 'in_progress' AND attempt.fence IS NULL) OR (task.state <> 'in_progress' AND attempt.fence IS NOT NULL)
 ORDER BY task.id

-- name: check_p1_fences
-- Tasks whose attempts are not numbered from one to the fence.
SELECT task.id FROM task LEFT JOIN attempt ON attempt.task_pk = task.pk
 GROUP BY task.id, task.fence
HAVING COUNT(attempt.fence) <> task.fence OR COALESCE(MAX(attempt.fence), 0) <> task.fence ORDER BY task.id

-- name: check_p2_final
-- Final tasks that somebody holds.
SELECT DISTINCT task.id FROM task JOIN attempt ON attempt.task_pk = task.pk AND attempt.outcome IS NULL
 WHERE task.state IN ('completed', 'failed', 'cancelled') ORDER BY task.id

-- name: check_p2_twice
-- Tasks that two attempts completed since they were last opened, or that are completed without one that did.
SELECT task.id FROM task
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.outcome = 'completed' AND attempt.fence > task.opened_fence
 GROUP BY task.id, task.state
HAVING COUNT(attempt.fence) > 1 OR (task.state = 'completed' AND COUNT(attempt.fence) = 0) ORDER BY task.id

-- name: check_p3_charged
-- Tasks whose count of charged attempts differs from the attempts.
SELECT task.id FROM task
  LEFT JOIN attempt ON attempt.task_pk = task.pk AND attempt.charged = 1 AND attempt.fence > task.opened_fence
 GROUP BY task.id, task.charged HAVING COUNT(attempt.fence) <> task.charged ORDER BY task.id

-- name: check_p3_ceiling
-- Tasks with more charged attempts than allowed, or claimable with none left.
SELECT task.id FROM task
 WHERE (task.state IN ('pending', 'scheduled') AND task.charged >= task.max_attempts)
    OR (task.state = 'in_progress' AND task.charged > task.max_attempts) ORDER BY task.id

-- name: check_p3_reason
-- Failed tasks without a reason.
SELECT task.id FROM task WHERE task.state = 'failed' AND task.reason IS NULL ORDER BY task.id

-- name: check_p4_unmet
-- Open tasks whose countdown differs from their edges.
SELECT child.id FROM task AS child
  LEFT JOIN edge ON edge.child_pk = child.pk
  LEFT JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE child.state NOT IN ('completed', 'failed', 'cancelled')
 GROUP BY child.id, child.unmet, child.parents
HAVING COUNT(parent.pk) <> child.parents OR child.unmet <>
       COALESCE(SUM(CASE WHEN parent.pk IS NULL THEN 0
                         WHEN parent.state = edge.condition THEN 0
                         WHEN edge.condition = 'finished' AND parent.state IN ('completed', 'failed', 'cancelled') THEN 0
                         ELSE 1 END), 0)
 ORDER BY child.id

-- name: check_p4_gate
-- Tasks that are ready although an edge holds them.
SELECT task.id FROM task WHERE task.state IN ('pending', 'scheduled') AND task.unmet > 0 ORDER BY task.id

-- name: check_p4_early
-- Tasks that were handed out before their dependencies allowed it: an edge holds them, and its parent was not reopened since.
-- The history says which came first: instants do not, for the clock may have been set back. Where the hand-out is pruned
-- from it, a parent that was ever reopened accuses nobody.
SELECT DISTINCT child.id FROM attempt
  JOIN task AS child ON child.pk = attempt.task_pk
  JOIN edge ON edge.child_pk = child.pk
  JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE attempt.outcome IS NULL AND parent.state NOT IN ('completed', 'failed', 'cancelled')
   AND (parent.opened_us IS NULL
        OR COALESCE((SELECT seq FROM event WHERE kind = 'task_reopened' AND task_id = parent.id ORDER BY seq DESC LIMIT 1), 0)
         < (SELECT seq FROM event WHERE kind = 'task_claimed' AND task_id = child.id AND fence = attempt.fence
             ORDER BY seq DESC LIMIT 1))
 ORDER BY child.id

-- name: check_p4_stuck
-- Blocked tasks that no edge holds.
SELECT task.id FROM task WHERE task.state = 'blocked' AND task.unmet <= 0 ORDER BY task.id

-- name: check_p4_impossible
-- Open tasks with an edge that can never be met.
SELECT DISTINCT child.id FROM edge
  JOIN task AS child ON child.pk = edge.child_pk
  JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE child.state NOT IN ('completed', 'failed', 'cancelled')
   AND ((edge.condition = 'completed' AND parent.state IN ('failed', 'cancelled'))
     OR (edge.condition = 'failed' AND parent.state IN ('completed', 'cancelled')))
 ORDER BY child.id

-- name: check_p6_tallies
-- Plans whose counts differ from their tasks.
SELECT plan.name AS id FROM plan
  LEFT JOIN tally ON tally.plan_pk = plan.pk
  LEFT JOIN task ON task.plan_pk = plan.pk
 GROUP BY plan.name, tally.blocked, tally.scheduled, tally.pending, tally.in_progress, tally.completed, tally.failed, tally.cancelled
HAVING COALESCE(tally.blocked, 0) <> SUM(CASE WHEN task.state = 'blocked' THEN 1 ELSE 0 END)
    OR COALESCE(tally.scheduled, 0) <> SUM(CASE WHEN task.state = 'scheduled' THEN 1 ELSE 0 END)
    OR COALESCE(tally.pending, 0) <> SUM(CASE WHEN task.state = 'pending' THEN 1 ELSE 0 END)
    OR COALESCE(tally.in_progress, 0) <> SUM(CASE WHEN task.state = 'in_progress' THEN 1 ELSE 0 END)
    OR COALESCE(tally.completed, 0) <> SUM(CASE WHEN task.state = 'completed' THEN 1 ELSE 0 END)
    OR COALESCE(tally.failed, 0) <> SUM(CASE WHEN task.state = 'failed' THEN 1 ELSE 0 END)
    OR COALESCE(tally.cancelled, 0) <> SUM(CASE WHEN task.state = 'cancelled' THEN 1 ELSE 0 END)
 ORDER BY plan.name

-- name: check_p6_urgency
-- Open tasks whose urgency is not the highest among their priority and the urgencies of the open tasks that wait for them.
SELECT parent.id FROM task AS parent
  LEFT JOIN edge ON edge.parent_pk = parent.pk
  LEFT JOIN task AS child ON child.pk = edge.child_pk AND child.state NOT IN ('completed', 'failed', 'cancelled')
 WHERE parent.state NOT IN ('completed', 'failed', 'cancelled')
 GROUP BY parent.id, parent.priority, parent.urgency
HAVING parent.urgency <> CASE WHEN COALESCE(MAX(child.urgency), parent.priority) > parent.priority
                              THEN MAX(child.urgency) ELSE parent.priority END
 ORDER BY parent.id

-- name: check_p6_pools
-- Ready tasks that come before the head of their pool, and heads that are not ready or are ranked otherwise.
SELECT task.id FROM task JOIN pool ON pool.pk = task.pool_pk
 WHERE task.state = 'pending' AND task.paused = 0
   AND (pool.head_pk IS NULL OR task.urgency > pool.head_urgency
        OR (task.urgency = pool.head_urgency AND task.pk < pool.head_pk))
 UNION
SELECT head.id FROM pool JOIN task AS head ON head.pk = pool.head_pk
 WHERE head.state <> 'pending' OR head.paused = 1 OR head.pool_pk IS NULL OR head.pool_pk <> pool.pk OR head.urgency <> pool.head_urgency
 ORDER BY id

-- name: check_p6_pauses
-- Tasks that are marked as paused without a pause, or the other way round, and final tasks that are paused.
SELECT task.id FROM task LEFT JOIN task_pause ON task_pause.task_pk = task.pk
 WHERE (task.paused = 1) <> (task_pause.task_pk IS NOT NULL)
    OR (task.paused = 1 AND task.state IN ('completed', 'failed', 'cancelled')) ORDER BY task.id

-- name: check_p6_reports
-- Results of tasks that have not completed and were never reopened.
SELECT task.id FROM result JOIN task ON task.pk = result.task_pk
 WHERE task.state <> 'completed' AND task.opened_fence = 0 ORDER BY task.id

-- name: check_p6_events
-- How many events there are, and between which.
SELECT COUNT(*) AS events, MIN(seq) AS first, MAX(seq) AS last FROM event

-- name: check_p7_totals
-- Totals that differ from the sum of what is left of their entries and of what was pruned.
WITH counted AS (
     SELECT plan_pk, agent_id, model, day,
              SUM(entries) AS entries,
              SUM(unpriced) AS unpriced,
              SUM(input_tokens) AS input_tokens,
              SUM(cached_input_tokens) AS cached_input_tokens,
              SUM(cache_write_tokens) AS cache_write_tokens,
              SUM(output_tokens) AS output_tokens,
              SUM(duration_us) AS duration_us,
              SUM(cost_pusd) AS cost_pusd,
              SUM(wasted_tokens) AS wasted_tokens,
              SUM(wasted_us) AS wasted_us,
              SUM(wasted_pusd) AS wasted_pusd
       FROM (SELECT usage_entry.plan_pk, usage_entry.agent_id, usage_entry.model, usage_entry.at_us / 86400000000 AS day, 1 AS entries,
                    CASE WHEN usage_entry.cost_pusd IS NULL THEN 1 ELSE 0 END AS unpriced, usage_entry.input_tokens,
                    usage_entry.cached_input_tokens, usage_entry.cache_write_tokens, usage_entry.output_tokens,
                    usage_entry.duration_us, COALESCE(usage_entry.cost_pusd, 0) AS cost_pusd,
                    CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                         THEN usage_entry.input_tokens + usage_entry.cached_input_tokens + usage_entry.cache_write_tokens
                              + usage_entry.output_tokens ELSE 0 END AS wasted_tokens,
                    CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                         THEN usage_entry.duration_us ELSE 0 END AS wasted_us,
                    CASE WHEN attempt.outcome IN ('failed', 'reclaimed', 'cancelled')
                         THEN COALESCE(usage_entry.cost_pusd, 0) ELSE 0 END AS wasted_pusd
               FROM usage_entry
               LEFT JOIN attempt ON attempt.task_pk = usage_entry.task_pk AND attempt.fence = usage_entry.fence
              UNION ALL
             SELECT plan_pk, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens, cache_write_tokens,
                    output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd
               FROM usage_pruned WHERE entries > 0) AS every_one
      GROUP BY plan_pk, agent_id, model, day)
SELECT COALESCE(total.agent_id, counted.agent_id) || ' on day ' || COALESCE(total.day, counted.day) AS id
  FROM usage_total AS total
  FULL JOIN counted ON counted.plan_pk = total.plan_pk AND counted.agent_id = total.agent_id AND counted.model = total.model
                   AND counted.day = total.day
 WHERE COALESCE(total.entries, 0) <> COALESCE(counted.entries, 0)
    OR COALESCE(total.unpriced, 0) <> COALESCE(counted.unpriced, 0)
    OR COALESCE(total.input_tokens, 0) <> COALESCE(counted.input_tokens, 0)
    OR COALESCE(total.cached_input_tokens, 0) <> COALESCE(counted.cached_input_tokens, 0)
    OR COALESCE(total.cache_write_tokens, 0) <> COALESCE(counted.cache_write_tokens, 0)
    OR COALESCE(total.output_tokens, 0) <> COALESCE(counted.output_tokens, 0)
    OR COALESCE(total.duration_us, 0) <> COALESCE(counted.duration_us, 0)
    OR COALESCE(total.cost_pusd, 0) <> COALESCE(counted.cost_pusd, 0)
    OR COALESCE(total.wasted_tokens, 0) <> COALESCE(counted.wasted_tokens, 0)
    OR COALESCE(total.wasted_us, 0) <> COALESCE(counted.wasted_us, 0)
    OR COALESCE(total.wasted_pusd, 0) <> COALESCE(counted.wasted_pusd, 0)
 ORDER BY id

-- name: check_p7_entries
-- Entries that say what no entry can: negative amounts, an attempt that was never made, a price without a cost.
SELECT usage_entry.agent_id || ' in entry ' || usage_entry.pk AS id FROM usage_entry
  LEFT JOIN attempt ON attempt.task_pk = usage_entry.task_pk AND attempt.fence = usage_entry.fence
 WHERE usage_entry.input_tokens < 0 OR usage_entry.cached_input_tokens < 0 OR usage_entry.cache_write_tokens < 0
    OR usage_entry.output_tokens < 0 OR usage_entry.duration_us < 0 OR usage_entry.cost_pusd < 0
    OR (usage_entry.fence IS NOT NULL AND attempt.fence IS NULL)
    OR (usage_entry.cost_pusd IS NULL AND usage_entry.price IS NOT NULL)
 ORDER BY usage_entry.pk

-- name: check_p7_sources
-- Source keys whose sums are not those of their entries. A prune takes entries away, the first one among them.
WITH counted AS (
     SELECT source, COUNT(*) AS entries, SUM(CASE WHEN cost_pusd IS NULL THEN 1 ELSE 0 END) AS unpriced,
            SUM(input_tokens) AS input_tokens, SUM(cached_input_tokens) AS cached_input_tokens,
            SUM(cache_write_tokens) AS cache_write_tokens, SUM(output_tokens) AS output_tokens,
            SUM(duration_us) AS duration_us, SUM(COALESCE(cost_pusd, 0)) AS cost_pusd
       FROM usage_entry WHERE source IS NOT NULL GROUP BY source)
SELECT COALESCE(held.source, counted.source) AS id
  FROM usage_source AS held FULL JOIN counted ON counted.source = held.source
 WHERE held.source IS NULL OR counted.entries > held.entries
    OR (counted.source IS NULL AND EXISTS (SELECT 1 FROM usage_entry WHERE usage_entry.pk = held.entry_pk))
    OR (counted.entries = held.entries
        AND (counted.unpriced <> held.unpriced OR counted.input_tokens <> held.input_tokens
             OR counted.cached_input_tokens <> held.cached_input_tokens
             OR counted.cache_write_tokens <> held.cache_write_tokens OR counted.output_tokens <> held.output_tokens
             OR counted.duration_us <> held.duration_us OR counted.cost_pusd <> held.cost_pusd))
    OR (counted.entries < held.entries AND EXISTS (SELECT 1 FROM usage_entry WHERE usage_entry.pk = held.entry_pk
                                                                         AND usage_entry.source = held.source))
 ORDER BY id

-- name: check_p8_reserved
-- Attempts that are over and still have something reserved, or that have reserved less than nothing.
SELECT DISTINCT task.id FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE attempt.reserved_pusd < 0 OR attempt.reserved_tokens < 0
    OR (attempt.outcome IS NOT NULL AND (attempt.reserved_pusd > 0 OR attempt.reserved_tokens > 0))
 ORDER BY task.id

-- name: check_p9_values
-- Entries that have not exactly one value, or whose content type does not fit it: it stands for bytes, and only for them.
SELECT entry.namespace || '/' || entry.key AS id FROM entry
  LEFT JOIN entry_value ON entry_value.entry_pk = entry.pk
 WHERE (entry_value.body IS NULL) = (entry_value.bytes IS NULL)
    OR (entry.content_type IS NULL) <> (entry_value.bytes IS NULL)
 ORDER BY entry.namespace, entry.key

-- name: check_p9_sizes
-- Entries whose size is not that of their value.
SELECT entry.namespace || '/' || entry.key AS id FROM entry JOIN entry_value ON entry_value.entry_pk = entry.pk
 WHERE entry.size <> COALESCE(octet_length(entry_value.body), octet_length(entry_value.bytes), -1)
 ORDER BY entry.namespace, entry.key

-- name: check_p9_versions
-- Entries that have no version, or are both there and gone.
SELECT entry.namespace || '/' || entry.key AS id FROM entry
  LEFT JOIN entry_tombstone ON entry_tombstone.namespace = entry.namespace AND entry_tombstone.key = entry.key
 WHERE entry.version < 1 OR entry_tombstone.version IS NOT NULL
 ORDER BY entry.namespace, entry.key

-- name: check_p10_orphans
-- Paths held by attempts that are over.
SELECT DISTINCT task.id FROM hold
  JOIN task ON task.pk = hold.task_pk
  LEFT JOIN attempt ON attempt.task_pk = hold.task_pk AND attempt.fence = hold.fence AND attempt.outcome IS NULL
 WHERE attempt.fence IS NULL ORDER BY task.id

-- name: check_p10_lots
-- Lots that are closed although nobody holds their pattern, so that who waits there waits for ever, or open although held.
SELECT DISTINCT lot.pattern AS id FROM lot
  LEFT JOIN hold ON hold.workspace = lot.workspace AND hold.pattern = lot.pattern AND hold.mode = lot.mode
 WHERE (lot.is_open = 0 AND hold.pattern IS NULL) OR (lot.is_open = 1 AND hold.pattern IS NOT NULL)
 ORDER BY lot.pattern

-- name: all_holds
-- Every held pattern with its task.
SELECT hold.workspace, hold.anchor, hold.pattern, hold.mode, hold.task_pk, task.id
  FROM hold JOIN task ON task.pk = hold.task_pk ORDER BY hold.workspace, hold.anchor, hold.pattern, hold.mode, hold.task_pk

-- name: check_p11_attempts
-- Attempts that ended without an outcome or the other way round, or whose lease ended before it began.
SELECT DISTINCT task.id FROM attempt JOIN task ON task.pk = attempt.task_pk
 WHERE (attempt.outcome IS NULL) <> (attempt.ended_us IS NULL)
    OR attempt.heartbeat_us < attempt.started_us OR attempt.lease_expires_us < attempt.started_us ORDER BY task.id

-- name: check_p11_ended
-- Tasks that are final without an end, or the other way round.
SELECT task.id FROM task
 WHERE (task.state IN ('completed', 'failed', 'cancelled')) <> (task.ended_us IS NOT NULL) ORDER BY task.id
