import { Charts, ErrorPanel, Letters, element, facts, lasting, live, number, reason, retrying, rows, set }
  from "./shared.js";

const states = ["failed", "warning", "normal", "stopped", "finished"];
const few = 3;
const byId = (id) => document.getElementById(id);
const cards = new Map();
let content = { changefeeds: [] };
let history = null;
let chosen = "";

class Card {
  constructor(id) {
    this.id = id;
    this.open = null;
    this.node = byId("changefeed").content.cloneNode(true).firstElementChild;
    this.node.dataset.id = id;
    this.fold = this.find(".fold");
    this.body = this.find(".body");
    this.body.id = `body-${id}`;
    this.fold.setAttribute("aria-controls", this.body.id);
    this.find(".scroll").setAttribute("aria-label", `Tables of ${id}`);
    this.charts = new Charts(this.find(".charts"));
    this.error = new ErrorPanel();
    this.letters = new Letters(`/dead-letters?of=${encodeURIComponent(id)}`);
    this.body.prepend(this.error.node);
    this.find(".charts").before(this.letters.node);
    this.fold.addEventListener("click", () => { this.open = this.body.hidden; draw(content); });
    this.find(".pause").addEventListener("click", async () => {
      if (await confirmed(`Pause ${id}?`)) this.order("pause");
    });
    this.find(".resume").addEventListener("click", () => this.order("resume"));
  }

  find(selector) { return this.node.querySelector(selector); }

  async order(verb) {
    const buttons = this.node.querySelectorAll(".pause, .resume");
    set(this.find(".refused"), "");
    buttons.forEach((button) => { button.disabled = true; });
    try {
      const response = await fetch(`/api/v2/changefeeds/${encodeURIComponent(this.id)}/${verb}`, { method: "POST" });
      if (!response.ok) set(this.find(".refused"), (await response.json()).error_msg);
    } catch (error) {
      set(this.find(".refused"), String(error));
    }
    await show();
    buttons.forEach((button) => { button.disabled = false; });
  }

  draw(feed, open) {
    const say = (selector, text) => set(this.find(selector), text);
    const opens = this.body.hidden && open;
    this.body.hidden = !open;
    this.fold.setAttribute("aria-expanded", String(open));
    this.node.dataset.state = feed.state;
    say(".id", feed.id);
    say(".state", feed.state);
    this.find(".state").dataset.state = feed.state;
    this.find(".short").hidden = open;
    say(".short-lag", feed.lag_seconds === null ? "" : `lag ${lasting(feed.lag_seconds)}`);
    say(".short-rate", feed.runs ? `${number(feed.rows_per_second)} rows/s` : "");
    const retry = feed.state === "warning" ? retrying(feed.retries, feed.retry_in_seconds) : "";
    say(".reason", open || !feed.error ? "" : [retry, reason(feed.error)].filter(Boolean).join(" · "));
    this.find(".pause").hidden = !feed.runs;
    this.find(".resume").hidden = feed.runs;
    if (!open) return;
    this.error.show(feed.error, retry);
    say(".sink", feed.sink_uri);
    say(".time", feed.checkpoint_time);
    say(".checkpoint", `TSO ${feed.checkpoint_ts}`);
    const late = feed.lag_seconds !== null;
    const caughtUp = feed.source_age_seconds !== null;
    say(".lag", lasting(feed.lag_seconds));
    say(".lag-tso", caughtUp ? `source is ${lasting(feed.source_age_seconds)} old` : late ? `TSO ${feed.lag_tso}` : "");
    say(".rate", number(feed.rows_per_second));
    say(".rows", number(feed.rows));
    this.find(".waiting").hidden = !feed.rows_waiting;
    say(".rows-waiting", number(feed.rows_waiting));
    say(".letters", number(feed.dead_letters));
    this.letters.show(feed.dead_letters ? feed.dead_letters_command : "");
    this.find(".scroll").hidden = feed.tables.length === 0;
    rows(this.find("tbody"), feed.tables.map((table) =>
      [table.name, table.version ?? "–", table.messages, table.skipped]));
    if (opens && history) this.charts.draw(history, feed.id);
  }
}

function confirmed(question) {
  const dialog = byId("ask");
  set(byId("question"), question);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((answer) => {
    dialog.addEventListener("close", () => answer(dialog.returnValue === "yes"), { once: true });
  });
}

function matches(feed, searched) {
  const texts = [feed.id, feed.sink_uri, feed.error?.message ?? "", ...feed.tables.map((table) => table.name)];
  return (!chosen || feed.state === chosen) && texts.some((text) => text.toLowerCase().includes(searched));
}

function opened(card) { return card.open ?? content.changefeeds.length <= few; }

function drawBar(feeds, shown) {
  const counts = Object.fromEntries(states.map((state) => [state, feeds.filter((f) => f.state === state).length]));
  const home = byId("states");
  if (!home.children.length) {
    home.append(...["", ...states].map((state) => {
      const button = element("button", "filter");
      button.type = "button";
      button.dataset.state = state;
      button.addEventListener("click", () => { chosen = chosen === state ? "" : state; draw(content); });
      return button;
    }));
  }
  for (const button of home.children) {
    const state = button.dataset.state;
    set(button, state ? `${counts[state]} ${state}` : `All ${feeds.length}`);
    button.hidden = Boolean(state) && !counts[state] && chosen !== state;
    button.setAttribute("aria-pressed", String(chosen === state));
  }
  const late = feeds.filter((f) => f.lag_seconds !== null && f.state !== "stopped");
  const worst = late.reduce((one, other) => (one && one.lag_seconds >= other.lag_seconds ? one : other), null);
  const sum = (name) => number(feeds.reduce((total, feed) => total + feed[name], 0));
  facts(byId("summary"), [
    ["Changefeeds", number(feeds.length)],
    ["Worst lag", worst ? lasting(worst.lag_seconds) : "–", worst?.lag_seconds ? worst.id : ""],
    ["Rows per second", sum("rows_per_second")],
    ["Dead letters since start", sum("dead_letters")],
  ]);
  set(byId("told"), states.filter((state) => counts[state]).map((state) => `${counts[state]} ${state}`).join(", "));
  byId("bar").hidden = feeds.length === 0;
  byId("none").hidden = feeds.length > 0;
  byId("no-match").hidden = feeds.length === 0 || shown.length > 0;
  set(byId("fold-all"), shown.some((feed) => opened(cards.get(feed.id))) ? "Fold all" : "Unfold all");
  return counts.failed ? `${counts.failed} failed` : "";
}

function draw(now) {
  content = now;
  const searched = byId("search").value.trim().toLowerCase();
  const feeds = [...content.changefeeds].sort((one, other) => states.indexOf(one.state) - states.indexOf(other.state));
  const ids = new Set(feeds.map((feed) => feed.id));
  for (const [id, card] of cards) {
    if (!ids.has(id)) { card.node.remove(); cards.delete(id); }
  }
  const home = byId("changefeeds");
  feeds.forEach((feed, place) => {
    if (!cards.has(feed.id)) cards.set(feed.id, new Card(feed.id));
    const card = cards.get(feed.id);
    // Moving a node takes the focus from it.
    if (home.children[place] !== card.node) home.insertBefore(card.node, home.children[place] ?? null);
    card.node.hidden = !matches(feed, searched);
    card.draw(feed, opened(card) && !card.node.hidden);
  });
  return drawBar(feeds, feeds.filter((feed) => !cards.get(feed.id).node.hidden));
}

byId("search").addEventListener("input", () => draw(content));
byId("fold-all").addEventListener("click", () => {
  const shown = [...cards.values()].filter((card) => !card.node.hidden);
  const open = !shown.some(opened);
  for (const card of shown) card.open = open;
  draw(content);
});

const show = live("/page", draw, (taken) => {
  history = taken;
  for (const card of cards.values()) {
    if (!card.body.hidden) card.charts.draw(history, card.id);
  }
});
