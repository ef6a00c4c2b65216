// Elements from strings that nobody has checked: they become text, never markup.

export const field = id => document.getElementById(id);

/** An element with attributes and children, which are elements or texts. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

/** A name of someone else, which must not turn the text around it from right to left. */
export const name = text => element("bdi", {}, text);
