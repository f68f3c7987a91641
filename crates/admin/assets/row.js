// One row: its form, its files, related rows, and its history.

import { get, labelField, request, rowPath, send, tables } from './api.js'
import { button, confirmed, describe, fail, fill, form, h, list, notify, time } from './dom.js'
import { formField, isHidden, isStored, shown } from './fields.js'
import { same } from './json.js'

const ENTRIES_MAX = 2000

const linkOf = (table, key, text = String(key)) =>
  h('a', { href: `#/row/${table}/${encodeURIComponent(key)}` }, text)

const missing = (main, name, text) => fill(main, h('h1', {}, name), h('p', {}, text))

// The page of a new row.
export const newRowPage = async (main, [name], query, go) => {
  const table = tables.get(name)
  if (!table?.may('insert')) { missing(main, name, 'There is no such table, or you may not insert rows.'); return }
  const parts = table.fields.map(field => formField(table, field, undefined, { isNew: true })).filter(Boolean)
  const create = async () => {
    const row = readAll(parts)
    const files = parts.filter(part => part.upload())
    let key
    if (files.some(part => part.field.kind === 'file')) {
      // A form has the files of the row, also of those that it cannot be without.
      const data = new FormData()
      for (const [field, value] of Object.entries(row)) {
        if (value === null) continue
        data.append(field, typeof value === 'object' && value.constructor !== Object && !Array.isArray(value) ? String(value) : typeof value === 'object' ? JSON.stringify(value) : String(value))
      }
      for (const part of files.filter(part => part.field.kind === 'file')) data.append(part.field.name, part.upload())
      const answer = await request('POST', `/${name}`, { body: data })
      key = answer.data?.[table.key] ?? decodeURIComponent(answer.headers.get('Location').split('/').pop())
    } else {
      key = (await send('POST', `/${name}`, row))[table.key]
    }
    await upload(table, key, files.filter(part => part.field.kind === 'blob'))
    notify('Created')
    go(`#/row/${name}/${encodeURIComponent(key)}`)
  }
  fill(main,
    h('p', { class: 'crumbs' }, h('a', { href: `#/table/${name}` }, name)),
    h('h1', {}, `New row of ${name}`),
    form(parts.map(part => part.element), { submit: 'Create', send: create, fields: byName(parts) }))
}

const byName = parts => Object.fromEntries(parts.map(part => [part.field.name, part.element]))

// The values of all fields; errors of all fields are thrown together.
const readAll = parts => {
  const [row, errors] = [{}, []]
  for (const part of parts) {
    try {
      const value = part.read()
      if (value !== undefined) row[part.field.name] = value
    } catch (error) { errors.push(...error.errors ?? [{ field: part.field.name, message: error.message }]) }
  }
  if (errors.length > 0) throw Object.assign(new Error(`${errors.length} ${errors.length === 1 ? 'field is' : 'fields are'} not valid`), { errors })
  return row
}

const upload = async (table, key, parts) => {
  for (const part of parts) {
    const file = part.upload()
    const path = rowPath(table.name, key, part.field.name)
    if (file) {
      const name = encodeURIComponent(file.name)
      await request('PUT', path, { body: file, headers: { 'Content-Type': file.type || 'application/octet-stream', 'Content-Disposition': `attachment; filename*=UTF-8''${name}` } })
    } else if (part.field.kind === 'file') await send('DELETE', path)
    else await send('PATCH', rowPath(table.name, key), { [part.field.name]: null })
  }
}

// The page of a row.
export const rowPage = async (main, [name, key], query, go) => {
  const table = tables.get(name)
  if (!table?.may('read')) { missing(main, name, 'There is no such table, or you may not read it.'); return }
  const crumbs = h('p', { class: 'crumbs' }, h('a', { href: `#/table/${name}` }, name))
  const again = () => rowPage(main, [name, key], query, go)
  let row
  try {
    row = await get(rowPath(name, key))
  } catch (error) {
    if (error.status !== 404) throw error
    fill(main, crumbs, h('h1', {}, `${name} ${key}`), h('p', {}, 'This row does not exist.'))
    if (table.history) main.append(await historyOf(table, key, null, again))
    return
  }
  const label = labelField(table)
  const parts = table.fields.map(field => formField(table, field, row[field.name], { isNew: false, key })).filter(Boolean)
  const save = async () => {
    const body = readAll(parts)
    const files = parts.filter(part => part.upload() !== undefined)
    if (Object.keys(body).length > 0) {
      if (table.version) body[table.version] = row[table.version]
      await send('PATCH', rowPath(name, key), body).catch(error => {
        if (error.status === 412) error.message = 'The row was changed meanwhile. Reload the page to see the new values.'
        throw error
      })
    }
    await upload(table, key, files)
    notify('Saved')
    await again()
  }
  const remove = async () => {
    if (!await confirmed(`Delete ${name} ${key}?`, 'Delete')) return
    try {
      await send('DELETE', rowPath(name, key))
      notify('Deleted')
      go(`#/table/${name}`)
    } catch (error) { fail(error) }
  }
  const stored = table.fields.filter(isStored)
  const deletion = table.may('delete') && button('Delete', remove, { kind: 'danger' })
  const body = table.may('update')
    ? form(parts.map(part => part.element), { submit: 'Save', send: save, fields: byName(parts), extra: [deletion] })
    : h('div', {}, h('dl', {}, table.fields.filter(field => field.kind !== 'blob' && !isHidden(field)).map(field => [h('dt', {}, field.name), h('dd', {}, shown(table, field, row[field.name], key))])), deletion)
  fill(main, crumbs,
    h('div', { class: 'title' }, h('h1', {}, `${name} ${key}`), label && h('span', { class: 'muted' }, row[label.name])),
    stored.length > 0 && h('p', { class: 'muted' }, stored.map((field, at) => [at > 0 && ' · ', `${field.name.replaceAll('_', ' ')} `, shown(table, field, row[field.name], key)])),
    h('div', { class: 'columns' }, h('section', { 'aria-label': 'Fields' }, body),
      h('div', {}, await related(table, key), table.history && await historyOf(table, key, row, again))))
}

// Rows that this row refers to, and rows that refer to it, by one request.
const related = async (table, key) => {
  const to = table.fields.filter(field => field.kind === 'reference' && tables.get(field.table)?.may('read'))
  const from = [...tables.values()].filter(other => other.may('read')).flatMap(other =>
    other.fields.filter(field => field.kind === 'reference' && field.table === table.name).map(field => ({ other, field })))
  const relations = [
    ...to.map(field => ({ relation: field.name, title: `${field.name} (${field.table})`, other: tables.get(field.table) })),
    ...from.map(({ other, field }) => ({ relation: `${other.name}:${field.name}`, title: `${other.name} by ${field.name}`, other, field })),
  ].slice(0, 10)
  if (relations.length === 0) return null
  const fieldsOf = other => [...new Set([other.key, labelField(other)?.name].filter(Boolean))].join(',')
  const expand = relations.map(({ relation, other, field }) => `${relation}(fields=${fieldsOf(other)}${field ? `,order=-${other.key},limit=5` : ''})`)
  const section = h('section', {}, h('h2', {}, 'Related rows'))
  try {
    const { expand: found } = await get(`${rowPath(table.name, key)}?${new URLSearchParams({ fields: table.key, expand: expand.join(',') })}`)
    for (const { relation, title, other, field } of relations) {
      const rows = [found[relation] ?? found[relation.split(':')[0]]].flat().filter(Boolean)
      const label = labelField(other)
      const term = field && `${field.name} = ${table.keyField.kind === 'integer' ? key : `'${key.replaceAll("'", "''")}'`}`
      section.append(h('h3', {}, title), rows.length === 0 ? h('p', { class: 'muted' }, 'None.') : h('ul', {}, rows.map(row => h('li', {},
        linkOf(other.name, row[other.key]), label && ` ${row[label.name]}`))))
      if (rows.length === 5 && field) section.append(h('p', {}, h('a', { href: `#/table/${other.name}?${new URLSearchParams({ filter: term })}` }, `All of ${title}`)))
    }
  } catch (error) { section.append(h('p', { class: 'error' }, describe(error))) }
  return section
}

// All entries of the history, the oldest first.
const entriesOf = async (table, key) => {
  const entries = []
  let next = `${rowPath(table.name, key, 'history')}?limit=500`
  while (next && entries.length < ENTRIES_MAX) {
    const page = await get(next)
    entries.push(...page.rows)
    next = page.next
  }
  return entries
}

// The values of the fields that can be written, after the entry at an index.
const stateAt = (table, entries, index) => {
  let state = {}
  for (const entry of entries.slice(0, index + 1)) {
    state = entry.action === 'delete' ? {} : entry.action === 'insert' ? { ...entry.fields } : { ...state, ...entry.fields }
  }
  const isKept = ([name]) => {
    const field = table.fieldOf[name]
    return field && !isStored(field) && field.role !== 'key' && !['blob', 'file'].includes(field.kind)
  }
  return Object.fromEntries(Object.entries(state).filter(isKept))
}

const historyOf = async (table, key, row, again) => {
  const section = h('section', {}, h('h2', {}, 'History'))
  let entries
  try {
    entries = await entriesOf(table, key)
  } catch (error) {
    section.append(h('p', { class: 'muted' }, describe(error)))
    return section
  }
  const restore = async index => {
    const old = stateAt(table, entries, index)
    const entry = entries[index]
    if (!await confirmed(`Restore the version of ${entry.at.replace('T', ' ').slice(0, 19)}?`, 'Restore')) return
    try {
      if (row) {
        const changed = Object.fromEntries(Object.entries(old).filter(([name, value]) => !same(value, row[name]) && !table.fieldOf[name].immutable))
        if (table.version) changed[table.version] = row[table.version]
        await send('PATCH', rowPath(table.name, key), changed)
      } else {
        await send('POST', `/${table.name}`, { ...old, [table.key]: table.keyField.kind === 'integer' ? Number(key) : key })
      }
      notify('Restored')
      await again()
    } catch (error) { fail(error) }
  }
  const summary = names => names.length > 4 ? `${names.length} fields` : names.join(', ') || 'no field'
  const values = entry => entry.fields
    ? h('details', {}, h('summary', {}, summary(Object.keys(entry.fields))),
      h('dl', {}, Object.entries(entry.fields).map(([name, value]) => [h('dt', {}, name), h('dd', {}, h('code', {}, JSON.stringify(value)))])))
    : ''
  const mayRestore = row ? table.may('update') : table.may('insert')
  const rows = entries.map((entry, index) => [time(entry.at), entry.action, entry.actor ?? '', values(entry),
    mayRestore && entry.action !== 'delete' && !(row && index === entries.length - 1)
      ? button('Restore', () => restore(index), { 'aria-label': `Restore the version of ${entry.at}` }) : '']).reverse()
  section.append(list('History', ['Time', 'Action', 'By', 'Fields', h('span', { class: 'hidden' }, 'Restore')], rows, 'No entries.'))
  return section
}
