-- name: task_by_id
-- A task with the names of what it belongs to and its open attempt.
SELECT * FROM task_view WHERE id = :id

-- name: task_by_pk
-- The same by key.
SELECT * FROM task_view WHERE pk = :pk

-- name: tombstone_of
-- What is left of a task that was pruned; it has no key any more.
SELECT CAST(NULL AS BIGINT) AS pk, task_tombstone.id, task_tombstone.plan_pk, plan.name AS plan, task_tombstone.state,
       task_tombstone.fence, task_tombstone.pruned_us
  FROM task_tombstone JOIN plan ON plan.pk = task_tombstone.plan_pk
 WHERE task_tombstone.id = :id

-- name: id_taken
-- Whether an id is that of a task, or was.
SELECT 0 AS pruned FROM task WHERE id = :id
 UNION ALL
SELECT 1 AS pruned FROM task_tombstone WHERE id = :id

-- name: list_tasks
-- A page of tasks in the order of their creation.
SELECT * FROM task_view
 WHERE pk > :after
   AND (CAST(:plan AS TEXT) IS NULL OR plan = :plan)
   AND (CAST(:state AS TEXT) IS NULL OR state = :state)
   AND (CAST(:holder AS TEXT) IS NULL OR holder = :holder)
 ORDER BY pk LIMIT :most

-- name: list_tagged
-- A page of the tasks that carry a tag.
SELECT task_view.* FROM task_tag JOIN task_view ON task_view.pk = task_tag.task_pk
 WHERE task_tag.tag = :tag AND task_tag.task_pk > :after
   AND (CAST(:plan AS TEXT) IS NULL OR task_view.plan = :plan)
   AND (CAST(:state AS TEXT) IS NULL OR task_view.state = :state)
   AND (CAST(:holder AS TEXT) IS NULL OR task_view.holder = :holder)
 ORDER BY task_tag.task_pk LIMIT :most

-- name: list_held
-- A page of the tasks that are being worked on; few among many, so they are found by their open attempts.
SELECT * FROM task_view
 WHERE pk IN (SELECT task_pk FROM attempt WHERE outcome IS NULL) AND pk > :after
   AND (CAST(:plan AS TEXT) IS NULL OR plan = :plan)
   AND (CAST(:holder AS TEXT) IS NULL OR holder = :holder)
 ORDER BY pk LIMIT :most

-- name: insert_task
-- Put a task on the board.
INSERT INTO task (id, plan_pk, title, state, priority, urgency, requires_pk, pool_pk, parents, unmet, fence, opened_fence,
                  charged, max_attempts, lease_timeout_us, max_hold_us, not_before_us, created_us, estimate_pusd,
                  estimate_tokens, has_body, tags, key)
VALUES (:id, :plan_pk, :title, :state, :priority, :urgency, :requires_pk, :pool_pk, :parents, :unmet, 0, 0,
        0, :max_attempts, :lease_timeout_us, :max_hold_us, :not_before_us, :now_us, :estimate_pusd,
        :estimate_tokens, :has_body, :tags, :key)
RETURNING pk

-- name: open_task_of_key
-- The open task that has a key.
SELECT id FROM task WHERE key = :key AND state NOT IN ('completed', 'failed', 'cancelled')

-- name: put_body
-- A task's long texts.
INSERT INTO body (task_pk, description, payload) VALUES (:task_pk, :description, :payload)
ON CONFLICT (task_pk) DO UPDATE SET description = excluded.description, payload = excluded.payload

-- name: body_of
-- A task's long texts.
SELECT description, payload FROM body WHERE task_pk = :task_pk

-- name: add_tag
-- Tie a tag to a task.
INSERT INTO task_tag (tag, task_pk) VALUES (:tag, :task_pk)

-- name: drop_tags
-- Untie all tags from a task.
DELETE FROM task_tag WHERE task_pk = :task_pk

-- name: move_task
-- Bring a task from the state and fence that were read to another state.
UPDATE task SET state = :state, fence = fence + :handed, charged = charged + :charge, not_before_us = :not_before_us,
                ended_us = :ended_us, reason = :reason, root_pk = :root_pk
 WHERE pk = :pk AND state = :was AND fence = :fence

-- name: open_again
-- Start a final task's count of attempts anew.
UPDATE task SET opened_fence = fence, opened_us = :now_us, charged = 0, unmet = :unmet, urgency = :urgency WHERE pk = :pk

-- name: update_task
-- Change what a task says of itself.
UPDATE task SET title = :title, priority = :priority, requires_pk = :requires_pk, pool_pk = :pool_pk,
                max_attempts = :max_attempts, lease_timeout_us = :lease_timeout_us, max_hold_us = :max_hold_us,
                estimate_pusd = :estimate_pusd, estimate_tokens = :estimate_tokens, has_body = :has_body, tags = :tags
 WHERE pk = :pk

-- name: set_not_before
-- The instant before which a task is not handed out.
UPDATE task SET not_before_us = :not_before_us WHERE pk = :pk

-- name: open_tasks_of_plan
-- A page of the tasks of a plan that are not final, oldest first.
SELECT pk FROM task
 WHERE plan_pk = :plan_pk AND pk > :after AND state NOT IN ('completed', 'failed', 'cancelled')
 ORDER BY pk LIMIT :most

-- name: plan_by_name
-- A plan.
SELECT pk, name, workspace, retention_us, created_us FROM plan WHERE name = :name

-- name: insert_plan
-- A new plan, unless another transaction has just made it.
INSERT INTO plan (name, workspace, retention_us, created_us) VALUES (:name, :workspace, :retention_us, :now_us)
ON CONFLICT (name) DO NOTHING

-- name: requirement_by_names
-- A capability set by its canonical text.
SELECT pk FROM requirement WHERE names = :names

-- name: insert_requirement
-- A new capability set.
INSERT INTO requirement (names) VALUES (:names) ON CONFLICT (names) DO NOTHING
