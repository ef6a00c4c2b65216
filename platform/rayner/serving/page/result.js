// What a service found in a text: marked in it, in a table, and one mention in detail.

import {element, field, name} from "./dom.js";
import {forest, unitsOf} from "./text.js";

const SHADES = 8;
const AT_ONCE = 500;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const TO_RIGHT = "\u200e";
const TO_LEFT = "\u200f";
const NUMBERS = ["Score", "From", "To"];

let shown;

/**
 * Shows the mentions of a document, which `text` is.
 * `types`: the names of those that were asked for, so that each keeps its colour from answer to answer.
 * `lookUp`: what looks a mention up, if anything does.
 */
export function showResult(text, document, reply, types, lookUp) {
  const mentions = document.mentions;
  const seen = new Set(mentions.map(mention => mention.type));
  const kinds = [...new Set([...types, ...seen])];
  shown = {
    text, mentions, isMixed: RIGHT_TO_LEFT.test(text), sentences: document.sentences ?? [], lookUp,
    shade: new Map(kinds.map((kind, place) => [kind, place % SHADES])),
    roots: forest(mentions),
    units: unitsOf(text, mentions.flatMap(mention => [mention.start, mention.end])),
    written: 0, at: 0, rows: 0,
  };
  field("detail").hidden = true;
  field("marked").replaceChildren();
  field("table").replaceChildren();
  field("legend").replaceChildren(...legend(kinds.filter(kind => seen.has(kind)), reply.new_types));
  field("versions").replaceChildren(...versions(reply.versions));
  field("result").hidden = false;
  showMore();
}

/** Shows the next part of a text with many mentions. */
export function showMore() {
  const next = shown.roots.slice(shown.written, shown.written + AT_ONCE);
  shown.written += next.length;
  const isLast = shown.written >= shown.roots.length;
  const until = isLast ? shown.text.length : shown.units.get(next.at(-1).end);
  field("marked").append(...written(next, shown.at, until));
  shown.at = until;
  const indices = next.flatMap(allOf).filter(piece => piece.isLast).map(piece => piece.index);
  addRows(indices.sort((a, b) => a - b));
  field("more").hidden = isLast;
  field("more").textContent = `Show more (${shown.mentions.length - shown.rows} mentions)`;
}

const allOf = piece => [piece, ...piece.children.flatMap(allOf)];

function written(pieces, start, end) {
  const parts = [];
  let at = start;
  for (const piece of pieces) {
    const [from, to] = [shown.units.get(piece.start), shown.units.get(piece.end)];
    parts.push(shown.text.slice(at, from), marked(piece, from, to));
    at = to;
  }
  parts.push(shown.text.slice(at, end));
  return parts;
}

function marked(piece, from, to) {
  const mention = shown.mentions[piece.index];
  const mark = element("mark", {class: `shade-${shown.shade.get(mention.type)}`, "data-mention": piece.index},
    ...written(piece.children, from, to));
  if (piece.isLast) mark.append(chip(mention, piece.index));
  if (piece.isLast && shown.isMixed) mark.append(directionAfter(mention.text));
  return mark;
}

/** What holds a label beside its mention where the line runs the other way. */
function directionAfter(text) {
  const last = text.match(/\p{L}/gu)?.at(-1) ?? "";
  return RIGHT_TO_LEFT.test(last) ? TO_LEFT : TO_RIGHT;
}

function chip(mention, index) {
  const entity = mention.name ?? mention.entity_id;
  return element("button", {type: "button", class: "chip", "aria-controls": "detail", onclick: () => select(index)},
    name(mention.type), entity ? element("span", {class: "entity"}, " ", name(entity)) : null,
    element("span", {class: "hidden"}, `: ${mention.text}`));
}

function legend(kinds, newTypes) {
  return kinds.map(kind => {
    const count = shown.mentions.filter(mention => mention.type === kind).length;
    const isNew = newTypes[kind] ? `, not learned (threshold: ${newTypes[kind]})` : "";
    return element("li", {}, element("span", {class: `swatch shade-${shown.shade.get(kind)}`}), name(kind),
      ` ${count}${isNew}`);
  });
}

function addRows(indices) {
  shown.rows += indices.length;
  if (!shown.mentions.length) return;
  const [fine, linked] = [shown.mentions.some(m => m.types.length), shown.mentions.some(m => m.candidates)];
  let body = field("table").querySelector("tbody");
  if (!body) {
    const titles = ["Mention", "Type", fine && "Fine types", "Score", linked && "Entity", "From", "To"];
    const head = titles.filter(Boolean).map(title =>
      element("th", {scope: "col", class: NUMBERS.includes(title) && "number"}, title));
    body = element("tbody");
    field("table").append(element("table", {}, element("thead", {}, element("tr", {}, ...head)), body));
  }
  body.append(...indices.map(index => {
    const mention = shown.mentions[index];
    const button = element("button", {type: "button", class: "link", "aria-controls": "detail",
      onclick: () => select(index)}, name(mention.text));
    return element("tr", {},
      element("th", {scope: "row"}, button),
      element("td", {}, name(mention.type)),
      fine && element("td", {}, ...commas(mention.types.slice(0, 3).map(type => name(type.name)))),
      element("td", {class: "number"}, number(mention.score)),
      linked && element("td", {}, ...entity(mention)),
      element("td", {class: "number"}, String(mention.start)),
      element("td", {class: "number"}, String(mention.end)));
  }));
}

function entity(mention) {
  if (mention.entity_id !== null) return [name(mention.name), " ", element("code", {}, name(mention.entity_id))];
  return [element("span", {class: "faint"}, mention.candidates.length ? "NIL" : "–")];
}

function select(index) {
  for (const mark of field("marked").querySelectorAll("mark")) {
    mark.classList.toggle("selected", Number(mark.dataset.mention) === index);
  }
  const detail = field("detail");
  detail.replaceChildren(...detailOf(shown.mentions[index]));
  detail.hidden = false;
  detail.scrollIntoView({block: "nearest"});
}

function detailOf(mention) {
  const rows = [
    ["Type", name(mention.type)],
    ["Characters", `${mention.start} to ${mention.end}`],
    mention.score !== null && ["Score", number(mention.score)],
    mention.margin !== null && ["Over the threshold by", number(mention.margin)],
    mention.types.length && ["Fine types", scores(mention.types.map(type => [[name(type.name)], type.score]))],
    mention.candidates && ["Entity", element("span", {}, ...entity(mention))],
    typeof mention.probability === "number" && mention.candidates?.length &&
      ["First candidate is right with", `${(100 * mention.probability).toFixed(1)} %`],
    mention.candidates?.length && ["Candidates", candidates(mention.candidates)],
    ...contexts(mention),
  ];
  const title = element("h3", {id: "detail-title"}, name(mention.text));
  const found = [title, element("dl", {}, ...rows.filter(Boolean).flatMap(definition))];
  if (shown.lookUp) {
    const ask = () => shown.lookUp(mention);
    found.push(element("button", {type: "button", onclick: ask}, "Look it up in the knowledge base"));
  }
  return found;
}

function contexts(mention) {
  const sentence = shown.sentences.find(one => one.start <= mention.start && mention.start < one.end);
  return (sentence?.contexts ?? []).map(context => [
    context.before ? "Context before it" : "Context after it",
    element("span", {}, name(context.text), context.score === null ? "" : ` (${number(context.score)})`),
  ]);
}

/** Candidates with names, ids and scores, best first. */
export const candidates = found =>
  scores(found.map(one => [[name(one.name), " ", element("code", {}, name(one.entity_id))], one.score]));

const scores = rows => element("ol", {}, ...rows.map(([what, score]) => element("li", {}, ...what, ` ${number(score)}`)));

/** A definition of a list. */
export const definition = ([term, what]) => [element("dt", {}, term), element("dd", {}, what)];

/** A number as it is shown. */
export const number = value => (typeof value === "number" ? value.toFixed(3) : "–");

const commas = parts => parts.flatMap((part, place) => (place ? [", ", part] : [part]));

function versions({knowledge_bases: bases, ...stages}) {
  const rows = Object.entries(stages).filter(([, version]) => version !== null);
  for (const [base, of] of Object.entries(bases)) {
    rows.push([`${base}: index`, of.index], [`${base}: standardizer`, of.standardizer]);
  }
  return rows.flatMap(definition);
}
