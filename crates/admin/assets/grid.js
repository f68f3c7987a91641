// The rows of a table: pages by keyset, a filter, an order, columns, edits in place, and changes as
// they happen.

import { get, loadTables, request, rowPath, send, tables, urlOf } from './api.js'
import { download } from './csv.js'
import { button, clearErrors, confirmed, describe, fail, fill, h, notify } from './dom.js'
import { canEdit, cellControl, isHidden, shown } from './fields.js'
import { filterForm } from './filter.js'
import { applyPatch, parse, same } from './json.js'

const PAGE_ROWS = 50

// False after the server has refused to send changes.
let hasChanges = true

// Where pages end that were left by `Next page`: their next pages lead back.
const ends = new Set()

// Names of hidden columns, kept by the browser.
const hiddenOf = table => new Set(JSON.parse(localStorage.getItem(`columns ${table.name}`) ?? '[]'))
const hide = (table, names) => localStorage.setItem(`columns ${table.name}`, JSON.stringify([...names]))

// The overview of all tables.
export const tablesPage = async main => {
  await loadTables()
  fill(main, h('h1', {}, 'Tables'), tables.size === 0 && h('p', { class: 'muted' }, 'There is no table that you may use.'),
    h('ul', { class: 'cards' }, [...tables.values()].map(table => h('li', {},
      h('a', { href: `#/table/${table.name}` }, h('strong', {}, table.name), ' ',
        h('span', { class: 'muted' }, `${table.fields.length} fields`))))))
}

export const tablePage = async (main, [name], query, go) => {
  const table = tables.get(name)
  if (!table) {
    fill(main, h('h1', {}, name), h('p', {}, 'There is no such table, or you may not read it.'))
    return undefined
  }
  const filter = query.get('filter') ?? ''
  const order = query.get('order') ?? ''
  const after = query.get('after') ?? ''
  let page = { rows: [], next: null }
  let editing = null
  let isStale = false
  let focus = { row: 0, column: 0 }
  const chosen = new Set()
  const keyOf = row => row[table.key]
  const to = changes => {
    const all = new URLSearchParams(query)
    for (const [key, value] of Object.entries(changes)) value ? all.set(key, value) : all.delete(key)
    return `#/table/${name}${all.size ? `?${all}` : ''}`
  }

  const hidden = hiddenOf(table)
  const columns = () => table.fields.filter(field => field.kind !== 'blob' && !isHidden(field) && !hidden.has(field.name))
  const url = () => {
    const all = new URLSearchParams({ limit: PAGE_ROWS })
    const needed = [...columns().map(field => field.name), table.key, table.version]
    all.set('fields', [...new Set(needed.filter(Boolean))].join(','))
    if (filter) all.set('filter', filter)
    if (order) all.set('order', order)
    if (after) all.set('after', after)
    return `/${name}?${all}`
  }

  const count = h('span', { class: 'muted', role: 'status' })
  const live = h('span', { class: 'live', hidden: true }, 'Live')
  const problem = h('div', { role: 'alert', class: 'error' })
  const grid = h('table', { role: 'grid', 'aria-label': `Rows of ${name}`, 'aria-multiselectable': 'true' })
  const pager = h('nav', { class: 'pager', 'aria-label': 'Pages of rows' })
  const removal = button('Delete selected', () => removeChosen(), { kind: 'danger', disabled: true })

  const showCount = async () => {
    const all = new URLSearchParams({ limit: 0, count: true })
    if (filter) all.set('filter', filter)
    try {
      const answer = await request('GET', `/${name}?${all}`, { headers: filter ? {} : { Prefer: 'count=estimated' } })
      const about = (answer.headers.get('Preference-Applied') ?? '').includes('estimated') ? 'about ' : ''
      count.textContent = `${about}${answer.data.count} ${answer.data.count === 1 ? 'row' : 'rows'}`
    } catch { count.textContent = '' }
  }
  let counting
  const countSoon = () => { clearTimeout(counting); counting = setTimeout(showCount, 500) }

  const [orderedBy, descends] = order.startsWith('-') ? [order.slice(1), true] : [order, false]
  const heading = field => {
    const state = orderedBy !== field.name ? 'none' : descends ? 'descending' : 'ascending'
    const next = { none: field.name, ascending: `-${field.name}`, descending: '' }[state]
    const arrow = { none: '', ascending: ' ↑', descending: ' ↓' }[state]
    const cannot = ['json', 'file', 'vector'].includes(field.kind)
    return h('th', { scope: 'col', 'aria-sort': cannot ? null : state, class: field.kind },
      cannot ? field.name : button([field.name, h('span', { 'aria-hidden': 'true' }, arrow)], () => go(to({ order: next, after: '' })), { kind: 'plain' }))
  }

  const cellAt = (row, column) => grid.querySelector(`[data-at="${row},${column}"]`)
  const moveTo = (row, column) => {
    const cell = cellAt(row, column)
    if (!cell) return
    cellAt(focus.row, focus.column)?.setAttribute('tabindex', '-1')
    cell.setAttribute('tabindex', '0')
    focus = { row, column }
    cell.focus()
  }

  const onkeydown = event => {
    const cell = event.target.closest('[data-at]')
    if (!cell || editing || event.ctrlKey || event.metaKey || event.altKey) return
    const [row, column] = cell.dataset.at.split(',').map(Number)
    const [rows, last] = [page.rows.length - 1, columns().length - 1]
    const moves = {
      ArrowDown: [Math.min(row + 1, rows), column], ArrowUp: [Math.max(row - 1, 0), column],
      ArrowRight: [row, Math.min(column + 1, last)], ArrowLeft: [row, Math.max(column - 1, 0)],
      Home: [row, 0], End: [row, last],
    }
    if (moves[event.key]) { event.preventDefault(); moveTo(...moves[event.key]) }
    if (event.target !== cell) return
    if (event.key === 'Enter' || event.key === 'F2') { event.preventDefault(); edit(row, column) }
    if (event.key === ' ' && table.may('delete')) {
      event.preventDefault()
      cell.parentElement.querySelector('input[type=checkbox]')?.click()
    }
  }

  const edit = (row, column) => {
    const field = columns()[column]
    const cell = cellAt(row, column)
    if (!canEdit(table, field)) {
      if (field.kind === 'file' || field.role === 'key') location.hash = `#/row/${name}/${encodeURIComponent(keyOf(page.rows[row]))}`
      return
    }
    const { element, read, target } = cellControl(field, page.rows[row][field.name])
    const done = () => {
      if (editing !== cell) return
      editing = null
      show()
      moveTo(Math.min(row, page.rows.length - 1), column)
    }
    const save = async () => {
      if (editing !== cell || target.disabled) return
      const body = {}
      try { body[field.name] = read() } catch (error) { refuse(error); return }
      if (body[field.name] === undefined) { done(); return }
      target.disabled = true
      clearErrors()
      const old = page.rows[row]
      if (table.version) body[table.version] = old[table.version]
      try {
        const saved = await send('PATCH', rowPath(name, keyOf(old)), body)
        const at = page.rows.findIndex(one => String(keyOf(one)) === String(keyOf(old)))
        if (at >= 0) for (const known of Object.keys(page.rows[at])) if (known in saved) page.rows[at][known] = saved[known]
        done()
        notify('Saved')
      } catch (error) {
        target.disabled = false
        if (error.status === 412) {
          fail({ message: 'The row was changed meanwhile. Look at the new values, and try again.' })
          isStale = true
          done()
          reload()
          return
        }
        refuse(error)
      }
    }
    const refuse = error => {
      target.setAttribute('aria-invalid', 'true')
      clearErrors()
      fail({ message: `${field.name}: ${error.errors?.[0]?.message ?? describe(error)}` })
      target.focus()
    }
    element.addEventListener('keydown', event => {
      event.stopPropagation()
      if (event.key === 'Escape') { event.preventDefault(); done() }
      if (event.key === 'Enter' && (target.tagName !== 'TEXTAREA' || event.ctrlKey) && event.target.tagName !== 'BUTTON') { event.preventDefault(); save() }
    })
    element.addEventListener('focusout', event => {
      const stays = element.contains(event.relatedTarget) || document.querySelector('dialog[open]')
      if (!stays && document.hasFocus()) save()
    })
    editing = cell
    fill(cell, element)
    target.focus()
    target.select?.()
  }

  const box = row => h('input', {
    type: 'checkbox', checked: chosen.has(String(keyOf(row))), 'aria-label': `Select ${keyOf(row)}`,
    onchange: event => {
      event.target.checked ? chosen.add(String(keyOf(row))) : chosen.delete(String(keyOf(row)))
      removal.disabled = chosen.size === 0
    },
  })

  const show = () => {
    if (editing) { isStale = true; return }
    isStale = false
    const active = document.activeElement?.closest?.('[data-at]')
    const mayDelete = table.may('delete')
    const fields = columns()
    focus = { row: Math.min(focus.row, Math.max(page.rows.length - 1, 0)), column: Math.min(focus.column, fields.length - 1) }
    const cells = (row, at) => fields.map((field, column) => h('td', {
      role: 'gridcell', class: `${field.kind}${canEdit(table, field) ? ' edit' : ''}`, 'data-at': `${at},${column}`,
      tabindex: at === focus.row && column === focus.column ? 0 : -1,
      'aria-readonly': canEdit(table, field) ? null : 'true',
      onfocus: () => { cellAt(focus.row, focus.column)?.setAttribute('tabindex', '-1'); focus = { row: at, column }; cellAt(at, column)?.setAttribute('tabindex', '0') },
      ondblclick: () => edit(at, column),
    }, shown(table, field, row[field.name], keyOf(row))))
    fill(grid,
      h('thead', {}, h('tr', {}, mayDelete && h('th', { scope: 'col', class: 'narrow' }, h('span', { class: 'hidden' }, 'Select')),
        h('th', { scope: 'col', class: 'narrow' }, h('span', { class: 'hidden' }, 'Open')), fields.map(heading))),
      h('tbody', {}, page.rows.map((row, at) => h('tr', {},
        mayDelete && h('td', { class: 'narrow' }, box(row)),
        h('td', { class: 'narrow' }, h('a', { href: `#/row/${name}/${encodeURIComponent(keyOf(row))}`, 'aria-label': `Open ${keyOf(row)}` }, 'Open')),
        cells(row, at)))))
    if (active) cellAt(focus.row, focus.column)?.focus()
    const end = page.next && new URLSearchParams(page.next.split('?')[1]).get('after')
    fill(pager, after && h('a', { href: to({ after: '' }) }, 'First page'),
      after && ends.has(after) && button('Previous page', () => history.back()),
      end && h('a', { href: to({ after: end }), class: 'next', onclick: () => ends.add(end) }, 'Next page'),
      page.rows.length === 0 && problem.textContent === '' && h('p', { class: 'muted' }, filter ? 'No row matches the filter.' : 'No rows yet.'))
  }

  const removeChosen = async () => {
    const number = chosen.size
    if (!await confirmed(`Delete ${number} ${number === 1 ? 'row' : 'rows'} of ${name}?`, 'Delete')) return
    const operations = page.rows.filter(row => chosen.has(String(keyOf(row)))).map(row => ({ delete: name, key: keyOf(row) }))
    try {
      clearErrors()
      await send('POST', '/batch', { operations })
      chosen.clear()
      removal.disabled = true
      notify(`Deleted ${operations.length}`)
      await reload()
    } catch (error) { fail(error) }
  }

  // All rows of the filter, in its order, with the columns that are shown.
  const exportRows = async () => {
    const names = columns().map(field => field.name)
    const all = new URLSearchParams({ fields: names.join(',') })
    if (filter) all.set('filter', filter)
    if (order) all.set('order', order)
    try {
      clearErrors()
      const { data } = await request('GET', `/${name}?${all}`, { headers: { Accept: 'application/x-ndjson' } })
      const rows = data.split('\n').filter(Boolean).map(parse)
      download(`${name}.csv`, { columns: names, rows: rows.map(row => names.map(one => row[one])) })
      notify(`Exported ${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`)
    } catch (error) { fail(error) }
  }

  const reload = async () => {
    problem.textContent = ''
    try {
      page = await get(url())
      show()
    } catch (error) {
      problem.textContent = describe(error)
      page = { rows: [], next: null }
      show()
      throw error
    }
    showCount()
  }

  // Changes, while the page is visible: a browser opens few connections to a server.
  let events
  const follow = () => {
    events?.close()
    live.hidden = true
    if (!hasChanges || document.hidden) return
    let isOpen = false
    events = new EventSource(urlOf(url()))
    events.addEventListener('snapshot', event => {
      isOpen = true
      live.hidden = false
      const now = parse(event.data)
      if (same(page, now)) return
      page = now
      show()
      countSoon()
    })
    events.addEventListener('patch', event => {
      applyPatch(page, parse(event.data))
      show()
      countSoon()
    })
    events.addEventListener('open', () => { live.hidden = false })
    events.addEventListener('error', () => {
      live.hidden = true
      if (!isOpen && events.readyState === EventSource.CLOSED) hasChanges = false
    })
  }

  const boxes = table.fields.filter(field => field.kind !== 'blob' && !isHidden(field)).map(field => h('label', { class: 'choice' },
    h('input', {
      type: 'checkbox', checked: !hidden.has(field.name), onchange: async event => {
        event.target.checked ? hidden.delete(field.name) : hidden.add(field.name)
        if (columns().length === 0) { hidden.delete(field.name); event.target.checked = true }
        hide(table, hidden)
        await reload().then(follow, fail)
      },
    }), field.name))

  fill(main,
    h('div', { class: 'title' }, h('h1', {}, name), count, live, h('span', { class: 'grow' }),
      table.may('insert') && h('a', { class: 'button primary', href: `#/new/${name}` }, 'New row')),
    filterForm(table, filter, changed => go(to({ filter: changed, after: '' }))),
    problem,
    h('div', { class: 'tools' },
      h('details', { class: 'menu' }, h('summary', {}, 'Columns'), h('div', { class: 'panel' }, boxes)),
      button('Export as CSV', exportRows), table.may('delete') && removal,
      h('span', { class: 'muted wide' }, table.may('update') ? 'Double-click or Enter edits a cell; arrow keys move.' : 'You may not change rows.')),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Rows of ${name}, scrolls` }, grid), pager)
  grid.addEventListener('keydown', onkeydown)
  if (!table.may('read')) { problem.textContent = 'You may not read the rows of this table.'; return undefined }
  await reload().then(follow, () => {})
  document.addEventListener('visibilitychange', follow)
  return () => {
    document.removeEventListener('visibilitychange', follow)
    clearTimeout(counting)
    events?.close()
  }
}
