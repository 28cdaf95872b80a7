import { asked, command, rows, set } from "./shared.js";

const byId = (id) => document.getElementById(id);
const shown = (value) => value === null ? "–" : String(value);

function draw(content) {
  const count = content.letters.length;
  set(byId("told"), content.problem ?? (content.more ? `${count} of them. This counts all:` :
    count ? "What these say was not applied. This counts them by reason:" : "There are none."));
  byId("list").hidden = !content.command || !count;
  byId("list").replaceChildren(command(content.command ?? "", "the command"));
  rows(byId("letters"), content.letters.map((letter) =>
    ["topic", "partition", "offset", "time", "reason", "detail"].map((name) => shown(letter[name]))));
  content.letters.forEach((letter, line) => byId("letters").rows[line].lastChild.append(
    command(letter.command, `the command that shows ${place(letter)}`)));
}

function place(letter) {
  return `topic ${shown(letter.topic)}, partition ${shown(letter.partition)}, offset ${shown(letter.offset)}`;
}

const of = new URLSearchParams(location.search).get("of");
if (of) {
  set(byId("title"), `Dead letters of ${of}`);
  document.title = `Dead letters of ${of}`;
  set(byId("back"), "Changefeeds");
}
try {
  draw(await asked(`/page/dead-letters${location.search}`));
} catch (error) {
  set(byId("told"), `no answer: ${error.message}`);
}
