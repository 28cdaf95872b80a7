"use strict";
// Everything is set as text, never as HTML: names and errors are whatever a database says.

const every = 1000;

function set(id, text) {
  const element = document.getElementById(id);
  if (element.textContent !== text) element.textContent = text;
}

function lasting(seconds) {
  if (seconds === null) return "–";
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

function fill(id, rows) {
  document.getElementById(id).replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    for (const cell of cells) row.appendChild(document.createElement("td")).textContent = cell.toLocaleString("en");
    return row;
  }));
}

function pairs(members, unit = "") {
  return Object.entries(members).map(([name, value]) => `${name} ${value.toLocaleString("en")}${unit}`).join(", ");
}

function tell(id, text) {
  document.getElementById(id).parentElement.hidden = !text;
  set(id, text);
}

function fillAll(status) {
  set("state", status.state);
  document.getElementById("state").dataset.state = status.state === "retrying" ? "warning" : "normal";
  set("source", status.source);
  set("to", status.to);
  set("time", status.resolved_time ?? "–");
  set("resolved", status.resolved_ts ? `TSO ${status.resolved_ts}` : "");
  set("lag", lasting(status.lag_seconds));
  set("rate", status.rows_per_second.toLocaleString("en", { maximumFractionDigits: 1 }));
  set("rows", `${status.rows.toLocaleString("en")} in ${status.batches.toLocaleString("en")} batches`);
  set("batch", status.batch === null ? "–" : String(status.batch));
  set("stages", pairs(status.stages, " s") || "–");
  set("letters", pairs(status.dead_letters) || "0");
  set("waits", status.waits.join(", ") || "nothing waits");
  tell("problem", status.problem ?? "");
  const warnings = status.tables.flatMap((table) => table.warnings.map((text) => `${table.name}: ${text}`));
  tell("warnings", [...warnings, ...status.warnings].join("\n"));
  fill("tables", status.tables.map((table) => [
    table.name, table.rows, table.upserted, table.deleted, table.unchanged, table.refused,
    table.checksums.mismatch ?? 0, lasting(table.lag_seconds),
  ]));
  fill("changes", status.schema_changes.map((change) => [change.table, change.commit_ts, change.query]).reverse());
}

async function show() {
  const now = document.getElementById("now");
  try {
    const response = await fetch("/status");
    if (!response.ok) throw new Error(`the replica answers ${response.status}`);
    const status = await response.json();
    fillAll(status);
    now.textContent = status.now;
    now.className = "";
  } catch (error) {
    now.textContent = `no connection: ${error.message}`;
    now.className = "lost";
  }
}

async function live() {
  await show();
  setTimeout(live, every);
}

live();
