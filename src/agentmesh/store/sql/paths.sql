-- name: holds_at
-- The patterns of others that are held with exactly this anchor, each with one of its holders.
SELECT pattern, mode, MIN(task_pk) AS task_pk FROM hold
 WHERE workspace = :workspace AND anchor = :anchor AND task_pk <> :task_pk
 GROUP BY pattern, mode ORDER BY pattern, mode

-- name: holds_below
-- The patterns of others that are held with an anchor in a range, each with one of its holders.
SELECT pattern, mode, MIN(task_pk) AS task_pk FROM hold
 WHERE workspace = :workspace AND anchor >= :low AND anchor < :high AND task_pk <> :task_pk
 GROUP BY pattern, mode ORDER BY pattern, mode

-- name: add_hold
-- A running attempt takes a pattern; taking it twice is taking it once.
INSERT INTO hold (workspace, anchor, pattern, mode, task_pk, fence)
VALUES (:workspace, :anchor, :pattern, :mode, :task_pk, :fence)
ON CONFLICT (workspace, anchor, pattern, mode, task_pk) DO NOTHING

-- name: end_holds
-- An attempt lets go of all its patterns.
DELETE FROM hold WHERE task_pk = :task_pk AND fence = :fence RETURNING workspace, anchor, pattern, mode

-- name: still_held
-- Whether any attempt holds this very pattern.
SELECT task_pk FROM hold
 WHERE workspace = :workspace AND anchor = :anchor AND pattern = :pattern AND mode = :mode
 ORDER BY task_pk LIMIT 1

-- name: holder_of
-- The agent that works on a task, and the task's id.
SELECT id, holder, lease_expires_us FROM task_view WHERE pk = :pk

-- name: pool_by_paths
-- The pool of a plan, a capability set and a set of patterns.
SELECT pk FROM pool WHERE plan_pk = :plan_pk AND requires_pk = :requires_pk AND paths = :paths

-- name: insert_pool
-- A new pool, unless another transaction has just made it.
INSERT INTO pool (plan_pk, requires_pk, paths) VALUES (:plan_pk, :requires_pk, :paths)
ON CONFLICT (plan_pk, requires_pk, paths) DO NOTHING

-- name: pool_of
-- A pool.
SELECT pool.pk, pool.paths, pool.lot_pk, plan.workspace
  FROM pool JOIN plan ON plan.pk = pool.plan_pk WHERE pool.pk = :pk

-- name: refresh_pool
-- Find a pool's most urgent ready task anew.
UPDATE pool SET (head_pk, head_urgency) =
       (SELECT MAX(head.pk), MAX(head.urgency)
          FROM (SELECT task.pk, task.urgency FROM task
                 WHERE task.pool_pk = :pk AND task.state = 'pending' AND task.paused = 0
                 ORDER BY task.urgency DESC, task.pk LIMIT 1) AS head)
 WHERE pk = :pk
RETURNING head_pk, lot_pk

-- name: ready_pools
-- A page of the pools that wait for nothing, most urgent head first.
SELECT pool.pk, pool.head_pk, pool.head_urgency, pool.paths, pool.lot_pk, pool.plan_pk
  FROM pool
 WHERE pool.requires_pk = :requires_pk AND pool.head_pk IS NOT NULL AND pool.lot_pk IS NULL
   AND (pool.head_urgency < :urgency OR (pool.head_urgency = :urgency AND pool.head_pk > :head_pk))
 ORDER BY pool.head_urgency DESC, pool.head_pk LIMIT 16

-- name: ready_plan_pools
-- The same within one plan.
SELECT pool.pk, pool.head_pk, pool.head_urgency, pool.paths, pool.lot_pk, pool.plan_pk
  FROM pool
 WHERE pool.plan_pk = :plan_pk
   AND pool.requires_pk = :requires_pk AND pool.head_pk IS NOT NULL AND pool.lot_pk IS NULL
   AND (pool.head_urgency < :urgency OR (pool.head_urgency = :urgency AND pool.head_pk > :head_pk))
 ORDER BY pool.head_urgency DESC, pool.head_pk LIMIT 16

-- name: parked_pools
-- A page of the pools in one lot, most urgent head first.
SELECT pool.pk, pool.head_pk, pool.head_urgency, pool.paths, pool.lot_pk, pool.plan_pk
  FROM pool
 WHERE pool.lot_pk = :lot_pk AND pool.requires_pk = :requires_pk AND pool.head_pk IS NOT NULL
   AND (pool.head_urgency < :urgency OR (pool.head_urgency = :urgency AND pool.head_pk > :head_pk))
 ORDER BY pool.head_urgency DESC, pool.head_pk LIMIT 16

-- name: open_lots
-- Lots whose pattern nobody holds any more, with pools still in them.
SELECT pk FROM lot WHERE is_open = 1 ORDER BY pk

-- name: lot_of
-- The lot of a pattern.
SELECT pk, is_open FROM lot WHERE workspace = :workspace AND pattern = :pattern AND mode = :mode

-- name: insert_lot
-- A lot for a pattern that is held.
INSERT INTO lot (workspace, pattern, mode, is_open) VALUES (:workspace, :pattern, :mode, 0)
ON CONFLICT (workspace, pattern, mode) DO NOTHING

-- name: mark_lot
-- Open or close a lot.
UPDATE lot SET is_open = :is_open WHERE pk = :pk

-- name: drop_lot
-- A lot with nothing in it is no more.
DELETE FROM lot WHERE pk = :pk

-- name: park_pool
-- A pool waits in a lot, or, with none, no longer.
UPDATE pool SET lot_pk = :lot_pk WHERE pk = :pk

-- name: unpark_first
-- The most urgent pools of a lot leave it.
UPDATE pool SET lot_pk = NULL
 WHERE pk IN (SELECT pool.pk FROM pool WHERE pool.lot_pk = :lot_pk
               ORDER BY pool.head_urgency DESC, pool.head_pk LIMIT :most)

-- name: parked_in
-- Whether anything is left in a lot.
SELECT pk FROM pool WHERE lot_pk = :lot_pk ORDER BY head_urgency DESC, head_pk LIMIT 1

-- name: any_pool
-- Whether tasks with paths are ready for a capability set, wherever they wait.
SELECT pk FROM pool WHERE requires_pk = :requires_pk AND head_pk IS NOT NULL AND lot_pk IS NOT NULL ORDER BY pk LIMIT 1
