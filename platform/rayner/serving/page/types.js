// The types to look for, as rows of a name and a description.

import {element, field} from "./dom.js";

let own = [];

/** Shows the service's own types. */
export function setTypes(types) {
  own = types;
  field("types").replaceChildren(...own.map(row));
}

/** Puts the service's own types back. */
export const resetTypes = () => setTypes(own);

/** Adds an empty row, and goes there. */
export function addType() {
  const added = row({name: "", description: ""});
  field("types").append(added);
  added.querySelector("input").focus();
}

/** What to ask for; undefined where it is what the service looks for anyway. */
export function typesAsked() {
  const rows = [...field("types").children].map(read);
  const isOwn = rows.length === own.length && rows.every((given, i) => isSame(given, own[i]));
  if (isOwn) return undefined;
  return rows.map(given => {
    const learned = own.find(type => isSame(given, type));
    return learned || !given.description ? {name: given.name} : given;
  });
}

/** The fields of the type at a place. */
export function typeFields(place) {
  const row = field("types").children[place];
  return row ? {name: row.querySelector("input"), description: row.querySelector("textarea")} : undefined;
}

const isSame = (given, type) => given.name === type.name && given.description === (type.description ?? "").trim();

function read(row) {
  return {name: row.querySelector("input").value, description: row.querySelector("textarea").value.trim()};
}

function row(type) {
  const input = element("input", {type: "text", dir: "auto", "aria-label": "Name of the type", placeholder: "name",
    autocomplete: "off", spellcheck: "false"});
  const description = element("textarea", {rows: 2, dir: "auto", placeholder: "description"});
  const remove = element("button", {type: "button", class: "remove"}, "×");
  const named = () => {
    description.setAttribute("aria-label", `Description of ${input.value || "the new type"}`);
    remove.setAttribute("aria-label", `Remove ${input.value || "the new type"}`);
  };
  input.value = type.name;
  description.value = type.description ?? "";
  input.addEventListener("input", named);
  named();
  const made = element("li", {}, input, remove, description);
  remove.addEventListener("click", () => {
    const next = made.nextElementSibling?.querySelector(".remove") ?? field("add-type");
    made.remove();
    next.focus();
    field("types").dispatchEvent(new Event("change", {bubbles: true}));
  });
  return made;
}
