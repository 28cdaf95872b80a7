"use strict";
// Everything is set as text, never as HTML: names and errors are whatever a database or a registry says.

const every = 1000;
const home = document.getElementById("changefeeds");
const sections = new Map();

function lasting(seconds) {
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;
}

async function order(section, id, verb) {
  const refused = section.querySelector(".refused");
  refused.textContent = "";
  section.querySelectorAll("button").forEach((button) => { button.disabled = true; });
  try {
    const response = await fetch(`/api/v2/changefeeds/${encodeURIComponent(id)}/${verb}`, { method: "POST" });
    if (!response.ok) refused.textContent = (await response.json()).error_msg;
  } catch (error) {
    refused.textContent = String(error);
  }
  await show();
}

function sectionOf(id) {
  if (!sections.has(id)) {
    const section = document.getElementById("changefeed").content.cloneNode(true).firstElementChild;
    section.dataset.id = id;
    section.querySelector(".pause").addEventListener("click", () => order(section, id, "pause"));
    section.querySelector(".resume").addEventListener("click", () => order(section, id, "resume"));
    sections.set(id, section);
  }
  return sections.get(id);
}

function fill(section, feed) {
  const set = (selector, text) => {
    const element = section.querySelector(selector);
    if (element.textContent !== text) element.textContent = text;
  };
  set(".id", feed.id);
  set(".state", feed.state);
  section.querySelector(".state").dataset.state = feed.state;
  set(".sink", feed.sink_uri);
  set(".time", feed.checkpoint_time);
  set(".checkpoint", `TSO ${feed.checkpoint_ts}`);
  const late = feed.lag_seconds !== null;
  const caughtUp = feed.source_age_seconds !== null;
  set(".lag", late ? lasting(feed.lag_seconds) : "–");
  set(".lag-tso", caughtUp ? `source is ${lasting(feed.source_age_seconds)} old` : late ? `TSO ${feed.lag_tso}` : "");
  set(".rate", feed.rows_per_second.toLocaleString("en", { maximumFractionDigits: 1 }));
  set(".letters", feed.dead_letters.toLocaleString("en"));
  section.querySelector(".error").hidden = !feed.error;
  set(".code", feed.error ? feed.error.code : "");
  set("time", feed.error ? feed.error.time : "");
  set("pre", feed.error ? feed.error.message : "");
  section.querySelector("table").hidden = feed.tables.length === 0;
  section.querySelector("tbody").replaceChildren(...feed.tables.map((table) => {
    const row = document.createElement("tr");
    for (const value of [table.name, table.version ?? "–", table.messages, table.skipped]) {
      row.appendChild(document.createElement("td")).textContent = value.toLocaleString("en");
    }
    return row;
  }));
  section.querySelector(".pause").disabled = !feed.runs;
  section.querySelector(".resume").disabled = feed.runs;
}

async function show() {
  const now = document.getElementById("now");
  try {
    const response = await fetch("/page");
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const content = await response.json();
    const ids = new Set(content.changefeeds.map((feed) => feed.id));
    for (const [id, section] of sections) {
      if (!ids.has(id)) { section.remove(); sections.delete(id); }
    }
    content.changefeeds.forEach((feed, place) => {
      const section = sectionOf(feed.id);
      fill(section, feed);
      if (home.children[place] !== section) home.insertBefore(section, home.children[place] ?? null);
    });
    document.getElementById("none").hidden = ids.size > 0;
    now.textContent = content.now;
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
