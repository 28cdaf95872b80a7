import { Charts, ErrorPanel, Letters, counted, facts, lasting, live, number, parts, retrying,
  rows, set, words } from "./shared.js";

const long = 3;
const byId = (id) => document.getElementById(id);
const error = new ErrorPanel();
const letters = new Letters("/dead-letters");
const charts = new Charts(byId("charts"));
byId("error").append(error.node);
byId("letters").append(letters.node);

function pairs(members, unit = "") {
  return Object.entries(members).map(([name, value]) => `${name} ${value.toLocaleString("en")}${unit}`).join(", ");
}

function doing(step) {
  return [step.text, step.total && `${number(step.done)} of ${counted(step.total, "table")} done`,
    `for ${words(step.seconds)}`, `since ${step.since}`];
}

function draw(status) {
  const fails = status.state === "retrying";
  // Looking for new messages takes a moment again and again, of which nobody needs to be told.
  const step = status.step?.seconds >= long ? status.step : null;
  set(byId("state"), step && status.state === "waiting" ? "reading" : status.state);
  byId("state").dataset.state = byId("replica").dataset.state = fails ? "warning" : "normal";
  byId("step").hidden = !step;
  parts(byId("step"), step ? doing(step) : []);
  set(byId("source"), status.source);
  set(byId("to"), status.to);
  error.show(status.problem && { message: status.problem, hint: status.hint },
    fails ? retrying(status.retries, status.retry_in_seconds) : "");
  facts(byId("facts"), [
    ["Resolved", status.resolved_time ?? "–", status.resolved_ts ? `TSO ${status.resolved_ts}` : ""],
    ["Lag", lasting(status.lag_seconds)],
    ["Rows per second", number(status.rows_per_second)],
    ["Rows since start", number(status.rows), `in ${counted(status.batches, "batch", "batches")}`],
    ["Last batch", status.batch === null ? "–" : String(status.batch)],
    ["Its stages", pairs(status.stages, " s") || "–"],
    ["Dead letters", pairs(status.dead_letters) || "0"],
    ["In the checkpoint", status.waits.join(", ") || "nothing waits"],
  ]);
  letters.show(status.dead_letters_command);
  const warnings = status.tables.flatMap((table) => table.warnings.map((text) => `${table.name}: ${text}`));
  set(byId("warnings"), [...warnings, ...status.warnings].join("\n"));
  byId("warnings").hidden = !byId("warnings").textContent;
  byId("tables").closest("section").hidden = !status.tables.length;
  byId("changes").closest("section").hidden = !status.schema_changes.length;
  rows(byId("tables"), status.tables.map((table) => [
    table.name, table.rows, table.upserted, table.deleted, table.unchanged, table.refused,
    table.checksums.mismatch ?? 0, lasting(table.lag_seconds),
  ]));
  rows(byId("changes"), status.schema_changes.map((change) => [change.table, change.commit_ts, change.query]).reverse());
  return fails ? status.state : "";
}

live("/status", draw, (history) => charts.draw(history, "replica"));
