// JSON whose numbers keep all their digits, and JSON Patch (RFC 6902).

// A number with more digits than a JavaScript number has.
export class Digits {
  constructor(text) { this.text = text }
  toString() { return this.text }
  valueOf() { return Number(this.text) }
  toJSON() { return JSON.rawJSON ? JSON.rawJSON(this.text) : Number(this.text) }
}

const isExact = (value, source) =>
  Number.isInteger(value)
    ? Number.isSafeInteger(value)
    : source.replace(/e.*$/i, '').replace(/\D/g, '').replace(/^0+/, '').length <= 15

export const parse = text => JSON.parse(text, (_, value, context) =>
  typeof value === 'number' && context?.source && !isExact(value, context.source)
    ? new Digits(context.source)
    : value)

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b)

// Applies the operations `add`, `remove` and `replace` to a document.
export const applyPatch = (document, operations) => {
  for (const { op, path, value } of operations) {
    const keys = path.slice(1).split('/').map(key => key.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = keys.pop()
    const at = keys.reduce((part, key) => part[key], document)
    if (op === 'replace' || !Array.isArray(at)) at[last] = value
    else if (op === 'add') at.splice(last, 0, value)
    else at.splice(last, 1)
  }
}
