// The values of fields: as text in cells, and as controls of forms.

import { get, labelField, rowPath, tables, urlOf } from './api.js'
import { button, fill, h, labelled, openDialog } from './dom.js'
import { Digits, parse, same } from './json.js'

const isNumber = kind => ['integer', 'float', 'currency'].includes(kind)
export const isStored = field => ['created_at', 'updated_at', 'version'].includes(field.role) || field.computed !== undefined || field.generated === true

export const bytes = count => {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let at = 0
  while (count >= 1000 && at < units.length - 1) { count /= 1000; at += 1 }
  return `${count < 10 && at > 0 ? count.toFixed(1) : Math.round(count)} ${units[at]}`
}

// A value as it is shown. `key` is that of its row.
export const shown = (table, field, value, key) => {
  if (value === null || value === undefined) return h('span', { class: 'null' }, 'null')
  switch (field.kind) {
    case 'reference':
      return h('a', { href: `#/row/${field.table}/${encodeURIComponent(value)}` }, String(value))
    case 'json': case 'vector': return h('code', {}, JSON.stringify(value))
    case 'timestamp': return h('time', { datetime: value, title: value }, value.replace('T', ' ').replace(/(:\d\d)(\.\d+)?Z$/, '$1'))
    case 'file': return h('a', { href: urlOf(rowPath(table.name, key, field.name)), target: '_blank' }, `${value.name} (${bytes(value.bytes)})`)
    case 'enum': return h('span', { class: 'tag' }, value)
    default: return String(value)
  }
}

const numberOf = text => {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text)) throw new Error('must be a number')
  return parse(text)
}

const jsonOf = text => {
  try { return parse(text) } catch (error) { throw new Error(`is not JSON: ${error.message}`) }
}

const textOf = (kind, value) => {
  if (value === null || value === undefined) return ''
  return kind === 'json' ? JSON.stringify(value, null, 2) : kind === 'vector' ? JSON.stringify(value) : String(value)
}

const hasDefault = field => field.default !== undefined || field.default_expression !== undefined

const hintOf = field => {
  const parts = []
  if (field.kind === 'integer' && field.range && field.range[0] !== -2147483648) parts.push(`${field.range[0]} to ${field.range[1]}`)
  if (field.kind === 'timestamp') parts.push('in UTC, such as 2026-01-31T12:00:00Z')
  if (field.kind === 'time') parts.push('such as 12:30:00')
  if (field.kind === 'vector') parts.push(`${field.dimensions} numbers, as JSON`)
  if (field.kind === 'currency') parts.push('up to four decimals')
  if (field.kind === 'file') parts.push(`at most ${bytes(field.bytes_max)}`, ...(field.types ?? []))
  if (field.default !== undefined) parts.push(`default: ${JSON.stringify(field.default)}`)
  if (field.default_expression) parts.push(`default: ${field.default_expression}`)
  if (field.computed) parts.push(`computed: ${field.computed}`)
  if (field.generated) parts.push('computed by the database')
  if (field.immutable) parts.push('fixed after the insert')
  for (const { rule, min, max, pattern } of field.rules ?? []) {
    const range = [min, max].filter(end => end !== null && end !== undefined).join(' to ')
    parts.push([rule.replaceAll('_', ' '), pattern, range].filter(Boolean).join(' '))
  }
  return parts.join(', ')
}

// The control of a field: `{ element, read }`. `read` returns the value, or throws an error; it
// returns undefined for an empty field that has a default in a new row.
const controlOf = (field, value, { isNew }) => {
  const isGiven = isNew && (hasDefault(field) || field.role === 'key')
  const optional = field.nullable || isGiven
  const emptyName = isGiven ? 'default' : 'null'
  const ofEmpty = () => {
    if (isGiven) return undefined
    if (field.nullable) return null
    throw new Error('is required')
  }
  const reading = (input, convert) => () => {
    const text = input.value.trim()
    return text === '' ? ofEmpty() : convert(text)
  }
  const input = attributes => h('input', { autocomplete: 'off', value: textOf(field.kind, value), ...attributes })
  switch (field.kind) {
    case 'boolean': case 'enum': {
      const isBoolean = field.kind === 'boolean'
      if (isBoolean && !field.nullable) {
        const box = h('input', { type: 'checkbox', checked: value ?? field.default ?? false })
        return { element: box, read: () => box.checked }
      }
      const values = isBoolean ? ['true', 'false'] : field.values
      const empty = optional ? emptyName : 'Choose …'
      const select = h('select', {},
        (optional || isNew) && h('option', { value: '' }, empty),
        values.map(name => h('option', { value: name, selected: String(value) === name }, name)))
      return { element: select, read: reading(select, text => isBoolean ? text === 'true' : text) }
    }
    case 'integer': case 'float': case 'currency': {
      const element = input({ inputmode: field.kind === 'integer' ? 'numeric' : 'decimal' })
      return { element, read: reading(element, numberOf) }
    }
    case 'date': {
      const element = input({ type: 'date', max: '9999-12-31' })
      return { element, read: reading(element, text => text) }
    }
    case 'time': {
      const element = input({ placeholder: '12:30:00' })
      return { element, read: reading(element, text => text) }
    }
    case 'timestamp': {
      const element = input({ placeholder: '2026-01-31T12:00:00Z' })
      const now = button('Now', () => { element.value = new Date().toISOString(); element.focus() })
      return { element: h('div', { class: 'joined' }, element, now), read: reading(element, text => text) }
    }
    case 'uuid': {
      const element = input({ class: 'mono' })
      const random = button('Random', () => { element.value = crypto.randomUUID(); element.focus() })
      return { element: h('div', { class: 'joined' }, element, random), read: reading(element, text => text) }
    }
    case 'json': case 'vector': {
      const element = h('textarea', { rows: 5, class: 'mono', spellcheck: 'false' }, textOf(field.kind, value))
      return { element, read: reading(element, jsonOf) }
    }
    case 'reference': return referenceControl(field, value, reading)
    default: return textControl(field, value, { isNew, ofEmpty, emptyName })
  }
}

const textControl = (field, value, { isNew, ofEmpty, emptyName }) => {
  const isLong = !field.max || field.max > 200
  const attributes = { maxlength: field.max, autocomplete: 'off' }
  const text = isLong
    ? h('textarea', { ...attributes, rows: 3 }, value ?? '')
    : h('input', { ...attributes, value: value ?? '' })
  if (!field.nullable) {
    const canBeEmpty = isNew && (hasDefault(field) || (field.role === 'key' && field.kind !== 'text'))
    return { element: text, read: () => text.value === '' && canBeEmpty ? ofEmpty() : text.value }
  }
  // An empty text and null are two values.
  const isNull = h('input', { type: 'checkbox', checked: value === null || value === undefined })
  text.addEventListener('input', () => { isNull.checked = false })
  isNull.addEventListener('change', () => { if (isNull.checked) text.value = '' })
  const element = h('div', { class: 'joined' }, text, h('label', { class: 'choice' }, isNull, emptyName))
  return { element, read: () => isNull.checked ? ofEmpty() : text.value }
}

const referenceControl = (field, value, reading) => {
  const key = h('input', { autocomplete: 'off', value: textOf('reference', value) })
  const name = h('output', { class: 'muted' })
  const other = tables.get(field.table)
  const isText = other ? other.keyField.kind !== 'integer' : false
  const label = other && labelField(other)
  const describeKey = async () => {
    name.textContent = ''
    if (!other?.may('read') || !label || key.value.trim() === '') return
    try {
      const row = await get(`${rowPath(other.name, key.value.trim())}?fields=${label.name}`)
      name.textContent = row[label.name]
    } catch (error) { name.textContent = error.status === 404 ? 'no such row' : '' }
  }
  key.addEventListener('change', describeKey)
  describeKey()
  const choose = () => pickRow(other, picked => { key.value = picked; describeKey(); key.focus(); key.dispatchEvent(new Event('picked')) })
  const element = h('div', { class: 'joined' }, key, other?.may('read') && button('Choose …', choose, { 'aria-label': `Choose ${field.name}` }), name)
  return { element, read: reading(key, text => isText ? text : numberOf(text)) }
}

export const quoted = text => `'${String(text).replaceAll('\\', '\\\\').replaceAll("'", "''")}'`

// A dialog with the rows of a table; `done` gets the key of the chosen one.
const pickRow = (table, done) => {
  const label = labelField(table)
  const results = h('ul', { class: 'picks' })
  const search = h('input', { type: 'search', autocomplete: 'off', 'aria-label': `Search ${table.name}` })
  const choose = key => { dialog.close(); done(key) }
  let number = 0
  const show = async () => {
    const current = ++number
    const query = new URLSearchParams({ limit: 20, fields: [...new Set([table.key, label?.name ?? table.key])].join(',') })
    if (label && search.value) query.set('filter', `${label.name} ~ ${quoted(search.value)}`)
    const page = await get(`/${table.name}?${query}`)
    if (current !== number) return
    fill(results, page.rows.map(row => h('li', {},
      button([h('span', { class: 'muted' }, String(row[table.key])), ' ', label && String(row[label.name])], () => choose(row[table.key])))),
    page.rows.length === 0 && h('li', { class: 'muted' }, 'No rows.'))
  }
  search.addEventListener('input', show)
  const dialog = openDialog(`Choose a row of ${table.name}`, search, results,
    h('div', { class: 'buttons' }, button('Cancel', () => dialog.close())))
  show()
}

const fileControl = (table, field, value, key) => {
  const file = h('input', { type: 'file', accept: (field.types ?? []).join(',') || null })
  const remove = h('input', { type: 'checkbox' })
  const path = key === undefined ? null : urlOf(rowPath(table.name, key, field.name))
  const isImage = field.kind === 'file' && value?.type?.startsWith('image/') && !value.type.includes('svg')
  const current = field.kind === 'file'
    ? value && h('a', { href: path, target: '_blank' }, isImage && h('img', { src: `${path}?thumbnail=100x100`, alt: '', onerror: event => event.target.remove() }), `${value.name} (${value.type}, ${bytes(value.bytes)})`)
    : path && h('a', { href: path, download: field.name }, 'Download')
  const element = h('div', { class: 'stack' }, current, file,
    field.nullable && (value || field.kind === 'blob') && path && h('label', { class: 'choice' }, remove, 'Remove'))
  return { element, read: () => undefined, upload: () => remove.checked ? null : file.files[0] }
}

// A field of a form, or null for one that people do not write.
// What the caller may do with a field, in rows that exist.
export const isHidden = field => field.readable === false
const isUpdatable = field => field.updatable !== false

export const formField = (table, field, value, { isNew, key, label }) => {
  if (isStored(field)) return null
  // The store makes a composite key of its fields.
  if (isNew && field.role === 'key' && table.key_fields) return null
  const isUpload = field.kind === 'file' || field.kind === 'blob'
  if (!isNew && isHidden(field) && !isUpdatable(field)) return null
  const isFixed = !isNew && (field.role === 'key' || field.immutable || !isUpdatable(field))
  const control = isFixed
    ? { element: h('input', { value: textOf(field.kind, value), readonly: true }), read: () => undefined }
    : isUpload ? fileControl(table, field, value, key) : controlOf(field, value, { isNew })
  const isRequired = isNew && !field.nullable && !hasDefault(field) && field.kind !== 'boolean' && (field.role !== 'key' || table.key_given_by === 'client')
  const name = [field.name, h('span', { class: 'kind' }, ` ${field.kind}`)]
  const element = labelled(label ?? name, control.element, { hint: hintOf(field), required: isRequired })
  const read = () => {
    try {
      const read = control.read()
      return !isNew && same(read, value) ? undefined : read
    } catch (error) {
      throw Object.assign(new Error('Some fields are not valid.'), { errors: [{ field: field.name, message: error.message }] })
    }
  }
  return { element, read, upload: control.upload ?? (() => undefined), field }
}

export const canEdit = (table, field) =>
  table.may('update') && !isStored(field) && field.role !== 'key' && !field.immutable && isUpdatable(field) && !['file', 'blob'].includes(field.kind)

// A control inside a cell.
export const cellControl = (field, value) => {
  const control = controlOf(field, value, { isNew: false })
  const target = control.element.matches('input, select, textarea') ? control.element : control.element.querySelector('input, textarea')
  target.setAttribute('aria-label', field.name)
  const read = () => {
    const read = control.read()
    return same(read, value) ? undefined : read
  }
  return { ...control, read, target }
}

// A text as a value of a field in a filter.
export const literal = (field, text) => {
  if (text === 'null' && field.kind !== 'text') return 'null'
  if (isNumber(field.kind)) return String(numberOf(text))
  if (field.kind === 'boolean') return text
  if (field.kind === 'reference') return tables.get(field.table)?.keyField.kind === 'integer' ? String(numberOf(text)) : quoted(text)
  return quoted(text)
}

export const formText = value => value instanceof Digits || typeof value !== 'object' ? String(value) : JSON.stringify(value)
