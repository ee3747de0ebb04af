-- name: frontier
-- The open tasks that wait for no other, those first that time and agents can move least by themselves.
SELECT * FROM (
       SELECT * FROM (SELECT task_view.* FROM task_view WHERE task_view.pk IN (
              SELECT pk FROM (SELECT task.pk FROM task WHERE task.state = 'pending' AND task.pool_pk IS NULL AND task.paused = 0 ORDER BY task.requires_pk, task.urgency DESC, task.pk LIMIT :most) AS plain
               UNION
              SELECT pk FROM (SELECT task.pk FROM task WHERE task.state = 'pending' AND task.pool_pk IS NOT NULL AND task.paused = 0 ORDER BY task.pool_pk, task.urgency DESC, task.pk LIMIT :most) AS pooled
               UNION
              SELECT pk FROM (SELECT task.pk FROM task WHERE task.paused = 1 AND task.state = 'pending' ORDER BY task.plan_pk, task.pk LIMIT :most) AS paused
               UNION
              SELECT pk FROM (SELECT task.pk FROM task WHERE task.paused = 1 AND task.state = 'scheduled' ORDER BY task.plan_pk, task.pk LIMIT :most) AS paused_later
               UNION
              SELECT pk FROM (SELECT task.pk FROM task WHERE task.state = 'scheduled' AND task.paused = 0 ORDER BY task.not_before_us, task.pk LIMIT :most) AS later
               UNION
              SELECT pk FROM (SELECT attempt.task_pk AS pk FROM attempt WHERE attempt.outcome IS NULL ORDER BY attempt.lease_expires_us, attempt.task_pk LIMIT :most) AS held)) AS some
        ) AS every_one
 ORDER BY paused DESC, urgency DESC, pk LIMIT :most

-- name: roots_of
-- What a blocked task waits for in the end: its open ancestors that wait for no other.
WITH RECURSIVE above (pk) AS (
     SELECT parent.pk FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk
      WHERE edge.child_pk = :pk AND parent.state NOT IN ('completed', 'failed', 'cancelled')
      UNION
     SELECT parent.pk FROM above JOIN edge ON edge.child_pk = above.pk JOIN task AS parent ON parent.pk = edge.parent_pk
      WHERE parent.state NOT IN ('completed', 'failed', 'cancelled'))
SELECT * FROM task_view WHERE pk IN (SELECT pk FROM above) AND state <> 'blocked' ORDER BY pk LIMIT :most

-- name: count_behind
-- How many tasks wait, over any number of edges, for a task; counted up to a thousand.
SELECT COUNT(*) AS behind FROM (
       WITH RECURSIVE below (pk) AS (
            SELECT child.pk FROM edge JOIN task AS child ON child.pk = edge.child_pk
             WHERE edge.parent_pk = :pk AND child.state = 'blocked'
             UNION
            SELECT child.pk FROM below JOIN edge ON edge.parent_pk = below.pk JOIN task AS child ON child.pk = edge.child_pk
             WHERE child.state = 'blocked')
       SELECT pk FROM below LIMIT 1000) AS counted
