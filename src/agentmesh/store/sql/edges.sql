-- name: add_edge
-- The child waits for the parent.
INSERT INTO edge (child_pk, parent_pk, condition) VALUES (:child_pk, :parent_pk, :condition)

-- name: drop_edge
-- The child no longer waits for the parent.
DELETE FROM edge WHERE child_pk = :child_pk AND parent_pk = :parent_pk

-- name: edge_between
-- The edge of a child and a parent.
SELECT condition FROM edge WHERE child_pk = :child_pk AND parent_pk = :parent_pk

-- name: parents_of
-- What a task waits for.
SELECT parent.pk, parent.id, parent.state, edge.condition
  FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE edge.child_pk = :pk ORDER BY edge.parent_pk

-- name: parent_keys
-- The keys of what a task waits for.
SELECT edge.parent_pk AS pk, parent.id
  FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE edge.child_pk = :pk ORDER BY edge.parent_pk

-- name: child_conditions
-- What waits for a task, and for which end of it.
SELECT child_pk, condition FROM edge WHERE parent_pk = :pk ORDER BY child_pk

-- name: open_children
-- The same without those that have ended, which nothing can free or doom.
SELECT edge.child_pk, edge.condition
  FROM edge JOIN task AS child ON child.pk = edge.child_pk
 WHERE edge.parent_pk = :pk AND child.state NOT IN ('completed', 'failed', 'cancelled')
 ORDER BY edge.child_pk

-- name: count_down
-- One edge less holds the children whose condition the parent's end has met.
UPDATE task SET unmet = unmet - 1
 WHERE state NOT IN ('completed', 'failed', 'cancelled')
   AND pk IN (SELECT child_pk FROM edge WHERE parent_pk = :pk AND condition IN (:one, :two))

-- name: free_children
-- Children of a parent that nothing holds any more leave the blocked state.
UPDATE task SET state = CASE WHEN not_before_us > :now_us THEN 'scheduled' ELSE 'pending' END
 WHERE state = 'blocked' AND unmet = 0 AND pk IN (SELECT child_pk FROM edge WHERE parent_pk = :pk)
RETURNING pk, id, plan_pk, pool_pk, state

-- name: count_edge
-- One edge more, or one less, holds a task.
UPDATE task SET parents = parents + :parents, unmet = unmet + :unmet WHERE pk = :pk

-- name: leads_to
-- Whether a task waits, over any number of edges, for another.
WITH RECURSIVE above (pk) AS (
     SELECT parent_pk FROM edge WHERE child_pk = :pk
      UNION
     SELECT edge.parent_pk FROM above JOIN edge ON edge.child_pk = above.pk)
SELECT pk FROM above WHERE pk = :target LIMIT 1

-- name: raise_urgency
-- Whatever a task waits for, over any number of edges, is at least as urgent as the task.
UPDATE task SET urgency = :urgency
 WHERE pk IN (
       WITH RECURSIVE above (pk) AS (
            SELECT parent.pk FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk
             WHERE edge.child_pk = :pk AND parent.urgency < :urgency
               AND parent.state NOT IN ('completed', 'failed', 'cancelled')
             UNION
            SELECT parent.pk FROM above JOIN edge ON edge.child_pk = above.pk JOIN task AS parent ON parent.pk = edge.parent_pk
             WHERE parent.urgency < :urgency AND parent.state NOT IN ('completed', 'failed', 'cancelled'))
       SELECT pk FROM above)
RETURNING pool_pk

-- name: raised_parents
-- The open parents of a task whose urgency stems from what waits for them.
SELECT parent.pk, parent.priority, parent.urgency, parent.pool_pk
  FROM edge JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE edge.child_pk = :pk AND parent.urgency > parent.priority
   AND parent.state NOT IN ('completed', 'failed', 'cancelled')
 ORDER BY edge.parent_pk

-- name: urgency_below
-- The highest urgency among the open tasks that wait for a task.
SELECT MAX(child.urgency) AS urgency
  FROM edge JOIN task AS child ON child.pk = edge.child_pk
 WHERE edge.parent_pk = :pk AND child.state NOT IN ('completed', 'failed', 'cancelled')

-- name: set_urgency
-- A task's urgency, worked out anew.
UPDATE task SET urgency = :urgency WHERE pk = :pk

-- name: open_edges_of_plan
-- The edges between open tasks of a plan whose child is within a range of keys.
SELECT edge.child_pk, edge.parent_pk, edge.condition
  FROM edge
  JOIN task AS child ON child.pk = edge.child_pk
  JOIN task AS parent ON parent.pk = edge.parent_pk
 WHERE edge.child_pk > :after AND edge.child_pk <= :last AND child.plan_pk = :plan_pk AND parent.plan_pk = :plan_pk
   AND child.state NOT IN ('completed', 'failed', 'cancelled') AND parent.state NOT IN ('completed', 'failed', 'cancelled')
 ORDER BY edge.child_pk, edge.parent_pk

-- name: edges_of_plan
-- Every edge of the board, or of one plan, by task ids.
SELECT child.id AS child, parent.id AS parent, edge.condition
  FROM edge
  JOIN task AS child ON child.pk = edge.child_pk
  JOIN task AS parent ON parent.pk = edge.parent_pk
  JOIN plan ON plan.pk = child.plan_pk
 WHERE (CAST(:plan AS TEXT) IS NULL OR plan.name = :plan)
 ORDER BY edge.child_pk, edge.parent_pk
