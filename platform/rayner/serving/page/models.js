// The models that find mentions, and which of them is asked.

import {element, field} from "./dom.js";

let offered = new Map();
let unnamed;

/** Takes what the service offers; there is a choice where several find mentions. */
export function offerModels(found) {
  const contents = one => JSON.stringify([one.stages, one.recognizer, one.linked]);
  const named = Object.entries(found.models).filter(([, one]) => one.recognizer);
  const alike = named.find(([, one]) => contents(one) === contents(found))?.[0] ?? "";
  unnamed = found.recognizer ? alike : undefined;
  offered = new Map(unnamed === "" ? [["", found], ...named] : named);
  const text = value => value || "as configured";
  field("model").replaceChildren(...[...offered.keys()].map(value => element("option", {value}, text(value))));
  field("model-part").hidden = offered.size < 2;
  field("model").value = unnamed ?? [...offered.keys()][0] ?? "";
}

/** What the service says of the chosen one; undefined where nothing finds mentions. */
export const model = () => offered.get(field("model").value);

/** What to ask for; undefined where it is what answers anyway. */
export const modelAsked = () => (field("model").value === unnamed ? undefined : field("model").value);
