// What the pages do. Everything is set as text, never as HTML: names and errors are whatever a database or a
// registry says.

const every = 1000;
const longest = 160;
const svg = "http://www.w3.org/2000/svg";

export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function element(tag, className = "", text = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.textContent = text;
  node.append(...children);
  return node;
}

// Parts of a line, each of which stays whole where it fits into one.
export function parts(node, texts, end = " ·") {
  const told = texts.filter(Boolean).map((text, place, { length }) => place < length - 1 ? text + end : text);
  if (node.textContent === told.join(" ")) return;
  node.replaceChildren(...told.flatMap((text) => [" ", element("span", "part", text)]).slice(1));
}

export function number(value, digits = 1) {
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function words(seconds) {
  const units = [["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = Math.max(units.findIndex(([, size]) => seconds >= size), 0);
  let left = Math.floor(seconds);
  return units.slice(first, first + 2).map(([unit, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count} ${unit}${unit === "day" && count > 1 ? "s" : ""}` : "";
  }).filter(Boolean).join(" ") || "0 s";
}

export function lasting(seconds) {
  if (seconds === null) return "–";
  return seconds < 120 ? `${seconds.toFixed(1)} s` : `${number(seconds, 0)} s (${words(seconds)})`;
}

export function counted(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// Facts: each a name, a value and, where there is more to it, that.
export function facts(list, told) {
  if (list.children.length !== told.length) {
    list.replaceChildren(...told.map(([name]) => element("div", "", "", element("dt", "", name),
      element("dd", "", "", element("span"), " ", element("small")))));
  }
  told.forEach(([, value, more = ""], place) => {
    const fact = list.children[place].lastChild;
    set(fact.firstChild, value);
    set(fact.lastChild, more);
  });
}

// Rows of a table, whose cells are as their columns' heads. On a small screen each is a block, whose cells have labels:
// such a table is none for a screen reader unless roles say so.
export function rows(body, lines) {
  const text = JSON.stringify(lines);
  if (body.filled === text) return;
  body.filled = text;
  const heads = [...body.parentNode.tHead.rows[0].cells];
  body.replaceChildren(...lines.map((cells) => {
    const row = element("tr", "", "", ...cells.map((value, place) => {
      const cell = element("td", heads[place].className, typeof value === "number" ? number(value) : value);
      cell.dataset.label = heads[place].textContent;
      cell.setAttribute("role", "cell");
      return cell;
    }));
    row.setAttribute("role", "row");
    return row;
  }));
}

export function copying(read, of) {
  const button = element("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy ${of}`);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(read());
      set(button, "Copied");
    } catch {
      set(button, "The browser refuses");
    }
    setTimeout(() => set(button, "Copy"), 2000);
  });
  return button;
}

// A command, and a button that copies it.
export function command(text, of) {
  const code = element("code");
  parts(code, text.split(" "), "");
  return element("div", "command", "", code, copying(() => text, of));
}

// An error: what to do, or its first words, on top; the rest folded.
export class ErrorPanel {
  constructor() {
    this.lead = element("p", "lead");
    this.words = element("p", "words");
    this.facts = element("p", "muted facts-line");
    this.message = element("pre", "message");
    this.more = element("details", "", "", element("summary", "", "What happened, in full"), this.message);
    this.node = element("div", "error", "", this.lead, this.words, this.facts, this.more,
      copying(() => this.message.textContent, "the error"));
    this.node.hidden = true;
  }

  show(problem, retry = "") {
    this.node.hidden = !problem;
    if (!problem) return;
    const first = firstWords(problem);
    set(this.lead, problem.hint || first);
    set(this.words, problem.hint ? first : "");
    this.more.hidden = first === withoutHint(problem);
    parts(this.facts, [problem.code, problem.time, retry]);
    set(this.message, problem.message);
  }
}

export function reason(problem) {
  return [problem.hint, firstWords(problem)].filter(Boolean).join(" · ");
}

// The API's message ends with the hint, in brackets.
function withoutHint(problem) {
  return problem.hint ? problem.message.replace(` (${problem.hint})`, "") : problem.message;
}

function firstWords(problem) {
  const first = withoutHint(problem).split("\n")[0];
  return first.length > longest ? `${first.slice(0, longest)}…` : first;
}

export function retrying(retries, seconds) {
  return `retry ${retries}, ${seconds === null ? "trying now" : `next in ${words(Math.ceil(seconds))}`}`;
}

// Where dead letters are told of: a page, and a command.
export class Letters {
  constructor(page) {
    this.link = element("a", "", "Show dead letters");
    this.link.href = page;
    this.node = element("div", "letters-at");
    this.node.hidden = true;
  }

  show(text) {
    this.node.hidden = !text;
    if (!text || this.text === text) return;
    this.text = text;
    this.node.replaceChildren(this.link, command(text, "the command"));
  }
}

class Chart {
  constructor(name, form) {
    this.name = name;
    this.form = form;
    this.caption = element("figcaption");
    this.picture = document.createElementNS(svg, "svg");
    this.picture.setAttribute("viewBox", "0 0 240 40");
    this.picture.setAttribute("preserveAspectRatio", "none");
    this.picture.setAttribute("role", "img");
    this.node = element("figure", "", "", this.caption, this.picture);
  }

  draw(times, values, end, span) {
    const known = values.filter((value) => value !== null);
    const most = Math.max(...known, 0);
    const told = known.length ? `at most ${this.form(most)}` : "nothing yet";
    set(this.caption, `${this.name}, last ${words(span)}: ${told}`);
    this.picture.setAttribute("aria-label", this.caption.textContent);
    const place = (value, at) => {
      const x = 240 * (1 - (end - times[at]) / span);
      return `${x.toFixed(1)} ${(38 - 36 * (value / (most || 1))).toFixed(1)}`;
    };
    let pen = "M";
    const line = values.map((value, at) => {
      if (value === null) { pen = "M"; return ""; }
      const point = `${pen}${place(value, at)}`;
      pen = "L";
      return point;
    }).join("");
    const ground = document.createElementNS(svg, "path");
    ground.setAttribute("class", "ground");
    ground.setAttribute("d", "M0 39.5L240 39.5");
    const curve = document.createElementNS(svg, "path");
    curve.setAttribute("class", "curve");
    curve.setAttribute("d", line);
    this.picture.replaceChildren(ground, curve);
  }
}

export class Charts {
  constructor(home) {
    this.lag = new Chart("Lag", lasting);
    this.rate = new Chart("Rows per second", number);
    home.replaceChildren(this.lag.node, this.rate.node);
  }

  draw(history, name) {
    const of = history.series[name] ?? { time: [], lag_seconds: [], rows_per_second: [] };
    this.lag.draw(of.time, of.lag_seconds, history.now, history.span_seconds);
    this.rate.draw(of.time, of.rows_per_second, history.now, history.span_seconds);
  }
}

export function tellAbout(content) {
  parts(document.getElementById("about"), [content.source, `tidecast ${content.version}`,
    `up ${words(content.uptime_seconds)}, since ${content.since}`]);
}

export async function asked(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  return response.json();
}

// Asks for the content again and again. `draw` shows it and returns what is wrong, for the title.
export function live(path, draw, drawHistory) {
  const now = document.getElementById("now");
  const title = document.title;
  let drawn = 0, pause = 0;
  const show = async () => {
    try {
      const content = await asked(path);
      const wrong = draw(content);
      tellAbout(content);
      if (performance.now() - drawn >= pause) {
        const history = await asked("/page/history");
        pause = Math.min(history.every_seconds, 30) * 1000;
        drawn = performance.now();
        drawHistory(history);
      }
      set(now, content.now);
      now.className = "";
      document.title = wrong ? `(${wrong}) ${title}` : title;
    } catch (error) {
      set(now, `no connection: ${error.message}`);
      now.className = "lost";
      document.title = `(no connection) ${title}`;
    }
  };
  const again = async () => {
    await show();
    setTimeout(again, every);
  };
  again();
  return show;
}
