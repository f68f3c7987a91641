// Rows as a file of comma-separated values (RFC 4180).

import { h } from './dom.js'

export const text = value => value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)

// A text that spreadsheets would execute begins with a quote.
const quoted = value => {
  const plain = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : text(value)
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}

// Saves rows, each a list of values, as a file of this name.
export const download = (name, { columns, rows }) => {
  const lines = [columns, ...rows].map(row => row.map(quoted).join(','))
  const url = URL.createObjectURL(new Blob([lines.join('\r\n'), '\r\n'], { type: 'text/csv' }))
  h('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url))
}
