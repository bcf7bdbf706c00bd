// A log as it is typed or read from a CSV file, counted per arm.

/** The fields of every line of a CSV text; quoted ones may hold commas, quotes and line breaks. */
export function parseCsv(text) {
  const lines = [];
  let fields = [], value = "", quoted = false;
  const endLine = () => {
    fields.push(value);
    if (fields.length > 1 || fields[0] !== "") lines.push(fields);
    [fields, value] = [[], ""];
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') value += c;
      else if (text[i + 1] === '"') value += text[++i];
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") fields.push(value), (value = "");
    else if (c === "\n") endLine();
    else if (c !== "\r") value += c;
  }
  endLine();
  return lines;
}

/** Arms as they are typed: "name, pulls, sum", of which the name may hold commas if it is quoted. */
export function parseArms(text) {
  return parseCsv(text).map((fields, i) => {
    const [name, pulls = "0", sum = "0"] = fields.map((field) => field.trim());
    const numbers = [Number(pulls), Number(sum)];
    if (!name || fields.length > 3 || !Number.isInteger(numbers[0]) || numbers[0] < 0 || !Number.isFinite(numbers[1])) {
      throw new Error(`Line ${i + 1} of the arms must be “name, times played, summed reward”, got “${fields.join(",")}”.`);
    }
    return { name, pulls: numbers[0], sum: numbers[1] };
  });
}

const quote = (name) => (/[",\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);

/** A CSV file of past decisions as the lines that `parseArms` reads. */
export async function readLog(file) {
  const [head, ...lines] = parseCsv(await file.text());
  if (!head) throw new Error("The log must have a line of names, got an empty file.");
  const columns = ["arm", "reward"].map((name) => head.map((one) => one.trim().toLowerCase()).indexOf(name));
  if (columns.includes(-1)) throw new Error(`The log must have the columns arm and reward, got ${head.join(", ")}.`);
  const found = new Map();
  lines.forEach((fields, i) => {
    const [name, reward] = columns.map((column) => fields[column]?.trim());
    if (!name || !reward || !Number.isFinite(Number(reward))) {
      throw new Error(`Line ${i + 2} of the log must have an arm and a number, got “${fields.join(",")}”.`);
    }
    const arm = found.get(name) ?? { pulls: 0, sum: 0 };
    arm.pulls += 1;
    arm.sum += Number(reward);
    found.set(name, arm);
  });
  const text = [...found].map(([name, { pulls, sum }]) => `${quote(name)}, ${pulls}, ${sum}`).join("\n");
  return { text, rows: lines.length, arms: found.size };
}
