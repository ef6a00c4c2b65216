// Offsets of the service count code points; a string here counts UTF-16 units.

/** The UTF-16 offset of each of some code point offsets. */
export function unitsOf(text, points) {
  const units = new Map();
  let point = 0;
  let unit = 0;
  for (const wanted of [...new Set(points)].sort((a, b) => a - b)) {
    while (point < wanted && unit < text.length) {
      unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
      point += 1;
    }
    units.set(wanted, unit);
  }
  return units;
}

/** How many code points a text has. */
export function length(text) {
  let points = 0;
  for (let unit = 0; unit < text.length; unit += text.codePointAt(unit) > 0xffff ? 2 : 1) points += 1;
  return points;
}

/**
 * Mentions as a forest: each lies within its parent. One that crosses another is cut at the other's end;
 * only its last piece is labelled.
 */
export function forest(mentions) {
  const waiting = mentions.map((mention, index) => piece(index, mention.start, mention.end));
  waiting.sort(before);
  const roots = [];
  const open = [];
  for (let at = 0; at < waiting.length; at += 1) {
    const next = waiting[at];
    while (open.length && open.at(-1).end <= next.start) open.pop();
    const parent = open.at(-1);
    if (parent && next.end > parent.end) {
      const rest = piece(next.index, parent.end, next.end);
      next.end = parent.end;
      next.isLast = false;
      let place = at + 1;
      while (place < waiting.length && before(waiting[place], rest) < 0) place += 1;
      waiting.splice(place, 0, rest);
    }
    (parent ? parent.children : roots).push(next);
    open.push(next);
  }
  return roots;
}

const piece = (index, start, end) => ({index, start, end, isLast: true, children: []});
const before = (a, b) => a.start - b.start || b.end - a.end || a.index - b.index;
