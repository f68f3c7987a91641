// "Try as this user": what a user may do with tables and rows, the reason of each denial, and the rows that
// the user sees.

import { get, tables } from './api.js'
import { fill, form, h, labelled, list } from './dom.js'

const EXTENTS = { all: ['yes', 'good'], some: ['some rows', ''], none: ['no', 'bad'] }

const extentOf = (extent, isRow) => {
  const [text, kind] = EXTENTS[extent]
  return h('span', { class: `tag ${kind}` }, extent === 'all' && !isRow ? 'all rows' : text)
}

const originOf = origin => typeof origin === 'object' ? `group ${origin.group}` : origin

// The grants with a right: who has each, and whether its rule is true for the row.
const grantsOf = (report, all) => report.grants.length > 0 && h('ul', {}, report.grants.map(({ grant, rule, holds }) => h('li', {},
  originOf(all[grant].origin), rule ? [' where ', h('code', {}, rule)] : ': all rows',
  rule && holds !== null && [' ', h('span', { class: `tag ${holds ? 'good' : 'bad'}` }, holds ? 'true' : 'false')])))

const rightsOf = ({ rights, grants, key }) => list('Rights', ['Right', 'Allowed', 'Reason, grants', 'Fields'], rights.map(report => [
  report.right, extentOf(report.extent, key !== null),
  [report.reason && h('p', {}, report.reason), grantsOf(report, grants)],
  report.extent !== 'none' && report.hidden.length > 0 ? `all but ${report.hidden.join(', ')}` : report.extent === 'none' ? '' : 'all']))

const overview = (answer, of) => list('Tables', ['Table', ...answer.tables[0]?.rights.map(report => report.right) ?? []],
  answer.tables.map(({ table, rights }) => [h('a', { href: of({ table, key: '' }) }, table), ...rights.map(report => [
    extentOf(report.extent, false), report.extent !== 'none' && report.hidden.length > 0 && h('span', { class: 'muted' }, ' some fields')])]), 'The program has no tables.')

const cell = value => value === null ? h('span', { class: 'null' }, 'null') : typeof value === 'object' ? JSON.stringify(value) : String(value)

// The rows as the user sees them. Fields that a row does not have are hidden from the user.
const rowsOf = async (user, table, filter, of) => {
  const { rows, is_complete: isComplete, refused } = await get(`/-/access/rows?${new URLSearchParams({ user, table, limit: 50, ...filter && { filter } })}`)
  const { fields, key } = tables.get(table)
  const shown = fields.filter(field => rows.some(row => field.name in row))
  return [
    list('Rows', shown.map(field => field.name), rows.map(row => shown.map(({ name }) =>
      !(name in row) ? h('span', { class: 'muted' }, 'hidden') : name === key ? h('a', { href: of({ key: String(row[name]) }) }, cell(row[name])) : cell(row[name]))), refused ?? 'This user sees no rows.'),
    !isComplete && h('p', { class: 'muted' }, 'These are the first 50 rows.'),
  ]
}

export const accessPage = async (main, parts, query, go) => {
  const { users } = await get('/auth/users')
  const at = name => query.get(name) ?? ''
  const of = changed => {
    const chosen = { user: at('user'), table: at('table'), key: at('key'), filter: at('filter'), ...changed }
    return `#/access?${new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== ''))}`
  }
  const choice = (label, chosen, options) => labelled(label, h('select', {}, options.map(([value, text]) => h('option', { value, selected: value === chosen }, text))))
  const user = choice('User', at('user'), [['', 'anonymous caller'], ...users.map(({ name }) => [name, name])])
  const table = choice('Table', at('table'), [['', 'all tables'], ...[...tables.keys()].map(name => [name, name])])
  const key = labelled('Row', h('input', { value: at('key'), autocomplete: 'off', spellcheck: 'false' }), { hint: 'The key of a row of the table; empty for the whole table' })
  const filter = labelled('Filter', h('input', { class: 'mono', value: at('filter'), autocomplete: 'off', spellcheck: 'false' }), { hint: 'For the rows that are shown below' })
  const ask = () => go(of({ user: user.target.value, table: table.target.value, key: key.target.value.trim(), filter: filter.target.value.trim() }))
  const asked = h('section', {})
  const seen = h('section', {})
  fill(main, h('h1', {}, 'Try as this user'),
    h('p', { class: 'muted' }, 'What the server would permit to a user, and why not. Nothing is changed.'),
    form([h('div', { class: 'row' }, user, table, key, filter)], { submit: 'Show', send: ask }), asked, seen)
  const error = where => problem => fill(where, h('p', { class: 'error', role: 'alert' }, problem.message))
  const chosen = Object.fromEntries(['user', 'table', 'key'].map(name => [name, at(name)]).filter(([, value]) => value !== ''))
  const answer = await get(`/-/access?${new URLSearchParams(chosen)}`).catch(error(asked))
  if (answer) {
    const who = answer.user ?? 'an anonymous caller'
    const what = answer.key ? `Rights of ${who} on the row ${answer.key} of ${answer.table}` : `Rights of ${who}${answer.table ? ` on ${answer.table}` : ''}`
    fill(asked, h('h2', {}, what), answer.is_disabled && h('p', { class: 'notice' }, 'This user is disabled and cannot log in.'),
      answer.tables ? overview(answer, of) : rightsOf(answer))
  }
  if (at('table')) {
    const rows = await rowsOf(at('user'), at('table'), at('filter'), of).catch(error(seen))
    if (rows) fill(seen, h('h2', {}, 'Rows that this user sees'), rows)
  }
}
