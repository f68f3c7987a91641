// SQL for administrators: a statement, its rows, and earlier statements of this browser. It can only read,
// unless the server lets it write.

import { send, session } from './api.js'
import { download, text } from './csv.js'
import { button, describe, fill, form, h, labelled, list } from './dom.js'

const HISTORY = 'marmota-sql'
const STATEMENTS_MAX = 30

// Earlier statements, the last one first. A browser may refuse to store them.
const earlier = () => {
  try {
    return JSON.parse(localStorage.getItem(HISTORY)) ?? []
  } catch { return [] }
}

const keep = sql => {
  try {
    localStorage.setItem(HISTORY, JSON.stringify([sql, ...earlier().filter(other => other !== sql)].slice(0, STATEMENTS_MAX)))
  } catch { /* It is not kept. */ }
}

const cell = value => value === null ? h('span', { class: 'muted' }, 'NULL') : text(value)

const result = answer => 'changed' in answer ? h('h2', {}, `${answer.changed === 1 ? '1 row' : `${answer.changed} rows`} changed`) : [
  h('div', { class: 'title' },
    h('h2', {}, answer.rows.length === 1 ? '1 row' : `${answer.rows.length} rows`),
    h('span', { class: 'muted' }, `${(answer.seconds * 1000).toFixed(1)} ms${answer.is_complete ? '' : ', there are more'}`),
    h('span', { class: 'grow' }),
    answer.rows.length > 0 && button('Export as CSV', () => download('rows.csv', answer))),
  list('Rows', answer.columns, answer.rows.map(row => row.map(cell)), 'No rows.'),
]

export const sqlPage = main => {
  const statement = labelled('Statement', h('textarea', { class: 'mono', rows: 6, spellcheck: 'false', autocomplete: 'off' }), { hint: session.writesSql ? 'Ctrl+Enter executes it.' : 'It can only read. Ctrl+Enter executes it.' })
  const values = labelled('Values', h('input', { class: 'mono', spellcheck: 'false', autocomplete: 'off' }), { hint: 'For the parameters (?) of the statement, as a list in JSON: ["1900-01-01", 7]' })
  const limit = labelled('At most', h('input', { type: 'number', min: 1, max: 10000, value: '1000' }))
  const write = h('input', { type: 'checkbox' })
  const writing = session.writesSql ? [h('label', { class: 'choice' }, write, 'Change rows'),
    h('p', { class: 'hint' }, 'Rules, hooks, versions and history do not apply.')] : []
  const rows = h('section', { 'aria-live': 'polite' })
  const history = h('section', {})
  const showHistory = () => fill(history, earlier().length > 0 && [h('h2', {}, 'Earlier statements'),
    h('ul', { class: 'plain' }, earlier().map(sql => h('li', {}, button(sql, () => { statement.target.value = sql; statement.target.focus() }, { kind: 'plain mono' }))))])
  const execute = async () => {
    fill(rows)
    const given = values.target.value.trim()
    let list
    try {
      list = given ? JSON.parse(given) : []
    } catch (error) {
      values.setError(describe(error))
      return
    }
    values.setError('')
    const sql = statement.target.value
    const body = { sql, values: list, limit: Number(limit.target.value) }
    if (write.checked) body.write = true
    const answer = await send('POST', '/-/sql', body)
    // Each change is chosen.
    write.checked = false
    fill(rows, result(answer))
    keep(sql)
    showHistory()
  }
  const editor = form([statement, values, limit, ...writing], { submit: 'Execute', send: execute })
  statement.target.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) editor.requestSubmit()
  })
  fill(main, h('h1', {}, 'SQL'), editor, rows, history)
  showHistory()
}
