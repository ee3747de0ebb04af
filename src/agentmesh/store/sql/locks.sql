-- name: lock_task
-- Hold a task's row until the transaction ends; taken before it is read, so that what is read stays true.
SELECT pk FROM task WHERE id = :id FOR UPDATE

-- name: lock_task_pk
-- The same by key.
SELECT pk FROM task WHERE pk = :pk FOR UPDATE

-- name: lock_graph
-- Only one transaction at a time changes edges between existing tasks, or urgencies: two new edges could close a cycle.
SELECT key FROM meta WHERE key = 'board_id' FOR UPDATE

-- name: lock_workspace
-- Only one transaction at a time takes or frees the paths of a workspace.
SELECT pk FROM plan WHERE workspace = :workspace ORDER BY pk FOR UPDATE

-- name: lock_requirements
-- New capability sets appear in the order of their keys, so a reader that knows the newest knows all before it.
SELECT pk FROM requirement WHERE pk = 0 FOR UPDATE

-- name: lock_entry
-- Hold an entry's row until the transaction ends: its version decides.
SELECT pk FROM entry WHERE namespace = :namespace AND key = :key FOR UPDATE

-- name: lock_budgets
-- Only one transaction at a time reserves or spends.
SELECT pk FROM budget ORDER BY pk FOR UPDATE
