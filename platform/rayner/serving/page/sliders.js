// Sliders that say nothing to the service until they are moved.

import {field} from "./dom.js";

/**
 * A slider with its output.
 * `say` is how a value is written, `initial` what the service has without being asked.
 */
export function slider(id, say) {
  const input = field(id);
  const output = field(`${id}-value`);
  let isMoved = false;
  let configured;
  const show = () => {
    const text = isMoved ? say(Number(input.value)) : `as configured (${say(configured)})`;
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  input.addEventListener("input", () => {
    isMoved = true;
    show();
  });
  return {
    /** Where it was moved to; undefined where it was not. */
    get value() {
      return isMoved ? Number(input.value) : undefined;
    },
    /** Puts it where the service has it. */
    reset(initial = configured) {
      configured = initial;
      isMoved = false;
      input.value = initial;
      show();
    },
    /** How far it goes. */
    limit(most) {
      input.max = most;
    },
  };
}
