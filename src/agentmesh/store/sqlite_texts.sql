-- Every text of every table, as bytes: SQLite keeps whatever bytes it is given, and the driver turns texts into strings
-- while it reads, so of a row with bytes that are not UTF-8 it gives nothing at all. A statement is named for its table.
-- Columns that begin with `row_` name the row, the others are its texts.

-- name: meta
-- Facts about the board.
SELECT CAST(key AS BLOB) AS row_key, CAST(key AS BLOB) AS key, CAST(value AS BLOB) AS value FROM meta;

-- name: plan
-- Plans.
SELECT CAST(name AS BLOB) AS row_name, CAST(name AS BLOB) AS name, CAST(workspace AS BLOB) AS workspace FROM plan;

-- name: task
-- Tasks.
SELECT CAST(id AS BLOB) AS row_id, CAST(id AS BLOB) AS id, CAST(key AS BLOB) AS key, CAST(title AS BLOB) AS title, CAST(state AS BLOB) AS state,
       CAST(tags AS BLOB) AS tags, CAST(reason AS BLOB) AS reason
  FROM task;

-- name: requirement
-- Sets of capabilities.
SELECT pk AS row_pk, CAST(names AS BLOB) AS names FROM requirement;

-- name: pool
-- Sets of path patterns.
SELECT pk AS row_pk, CAST(paths AS BLOB) AS paths FROM pool;

-- name: lot
-- Held patterns.
SELECT pk AS row_pk, CAST(workspace AS BLOB) AS workspace, CAST(pattern AS BLOB) AS pattern, CAST(mode AS BLOB) AS mode
  FROM lot;

-- name: body
-- Long texts of tasks.
SELECT task_pk AS row_task_pk, CAST(description AS BLOB) AS description, CAST(payload AS BLOB) AS payload FROM body;

-- name: result
-- Results of tasks.
SELECT task_pk AS row_task_pk, CAST(body AS BLOB) AS body FROM result;

-- name: task_tag
-- Tags of tasks.
SELECT task_pk AS row_task_pk, CAST(tag AS BLOB) AS tag FROM task_tag;

-- name: edge
-- Dependencies.
SELECT child_pk AS row_child_pk, parent_pk AS row_parent_pk, CAST(condition AS BLOB) AS condition FROM edge;

-- name: attempt
-- Hand-outs.
SELECT task_pk AS row_task_pk, fence AS row_fence, CAST(agent_id AS BLOB) AS agent_id, CAST(secret AS BLOB) AS secret,
       CAST(outcome AS BLOB) AS outcome, CAST(kind AS BLOB) AS kind, CAST(error AS BLOB) AS error
  FROM attempt;

-- name: aversion
-- Who released what.
SELECT task_pk AS row_task_pk, CAST(agent_id AS BLOB) AS agent_id FROM aversion;

-- name: hold
-- Paths that attempts hold.
SELECT task_pk AS row_task_pk, fence AS row_fence, CAST(workspace AS BLOB) AS workspace, CAST(anchor AS BLOB) AS anchor,
       CAST(pattern AS BLOB) AS pattern, CAST(mode AS BLOB) AS mode
  FROM hold;

-- name: pause
-- Pauses.
SELECT CAST(name AS BLOB) AS row_name, CAST(scope AS BLOB) AS scope, CAST(name AS BLOB) AS name,
       CAST(reason AS BLOB) AS reason, CAST(agent_id AS BLOB) AS agent_id
  FROM pause;

-- name: task_pause
-- Pauses of tasks.
SELECT task_pk AS row_task_pk, CAST(reason AS BLOB) AS reason, CAST(agent_id AS BLOB) AS agent_id,
       CAST(ceiling AS BLOB) AS ceiling
  FROM task_pause;

-- name: agent
-- Agents that asked for work.
SELECT CAST(agent_id AS BLOB) AS row_agent_id, CAST(agent_id AS BLOB) AS agent_id,
       CAST(capabilities AS BLOB) AS capabilities
  FROM agent;

-- name: note
-- Notes.
SELECT task_pk AS row_task_pk, pk AS row_pk, CAST(agent_id AS BLOB) AS agent_id, CAST(text AS BLOB) AS text FROM note;

-- name: request
-- Idempotency keys.
SELECT CAST(agent_id AS BLOB) AS row_agent_id, CAST(request_id AS BLOB) AS row_request_id,
       CAST(agent_id AS BLOB) AS agent_id, CAST(request_id AS BLOB) AS request_id, CAST(digest AS BLOB) AS digest,
       CAST(reply AS BLOB) AS reply
  FROM request;

-- name: event
-- The history.
SELECT seq AS row_seq, CAST(kind AS BLOB) AS kind, CAST(task_id AS BLOB) AS task_id, CAST(agent_id AS BLOB) AS agent_id,
       CAST(data AS BLOB) AS data
  FROM event;

-- name: entry
-- Entries of the blackboard.
SELECT pk AS row_pk, CAST(key AS BLOB) AS row_key, CAST(namespace AS BLOB) AS namespace, CAST(key AS BLOB) AS key,
       CAST(content_type AS BLOB) AS content_type, CAST(agent_id AS BLOB) AS agent_id, CAST(task_id AS BLOB) AS task_id
  FROM entry;

-- name: entry_value
-- Their values, save those that are bytes.
SELECT entry_pk AS row_entry_pk, CAST(body AS BLOB) AS body FROM entry_value;

-- name: entry_tombstone
-- Entries that are gone.
SELECT CAST(key AS BLOB) AS row_key, CAST(namespace AS BLOB) AS namespace, CAST(key AS BLOB) AS key FROM entry_tombstone;

-- name: usage_entry
-- The ledger.
SELECT pk AS row_pk, CAST(agent_id AS BLOB) AS agent_id, CAST(model AS BLOB) AS model, CAST(price AS BLOB) AS price,
       CAST(source AS BLOB) AS source, CAST(origin AS BLOB) AS origin
  FROM usage_entry;

-- name: usage_source
-- What has been counted under source keys.
SELECT CAST(source AS BLOB) AS row_source, CAST(source AS BLOB) AS source, CAST(agent_id AS BLOB) AS agent_id,
       CAST(model AS BLOB) AS model, CAST(origin AS BLOB) AS origin
  FROM usage_source;

-- name: usage_total
-- Its sums.
SELECT day AS row_day, plan_pk AS row_plan_pk, CAST(agent_id AS BLOB) AS agent_id, CAST(model AS BLOB) AS model
  FROM usage_total;

-- name: usage_pruned
-- What was pruned of it.
SELECT day AS row_day, plan_pk AS row_plan_pk, CAST(agent_id AS BLOB) AS agent_id, CAST(model AS BLOB) AS model
  FROM usage_pruned;

-- name: budget
-- Budgets.
SELECT pk AS row_pk, CAST(scope AS BLOB) AS scope, CAST(name AS BLOB) AS name, CAST(period AS BLOB) AS period FROM budget;

-- name: claim_cap
-- How much an agent may hold at once.
SELECT CAST(agent_id AS BLOB) AS row_agent_id, CAST(agent_id AS BLOB) AS agent_id FROM claim_cap;

-- name: task_tombstone
-- Tasks that were pruned.
SELECT CAST(id AS BLOB) AS row_id, CAST(id AS BLOB) AS id, CAST(state AS BLOB) AS state FROM task_tombstone;

-- name: id_of
-- A task's id. This one is named for no table.
SELECT CAST(id AS BLOB) AS id FROM task WHERE pk = :pk;
