// The tables of the application file: an editor, and the plan of what a change does to the database.

import { loadApp, loadTables, saveApp } from './api.js'
import { button, confirmed, describe, fail, fill, form, h, labelled, list, notify, openDialog } from './dom.js'

const KINDS = ['text', 'integer', 'float', 'currency', 'boolean', 'date', 'time', 'timestamp', 'enum', 'reference', 'uuid', 'json', 'blob', 'file', 'vector']
const ROLES = [['', 'none'], ['key', 'key of the row'], ['created_at', 'time of the insert'], ['updated_at', 'time of the last write'], ['version', 'version, counted by writes']]
const ON_DELETE = [['', 'refuse the delete'], ['cascade', 'delete this row too'], ['set_null', 'set this field to NULL']]

// The settings of a field with a control: their key in the file, words, the kinds that have them, and
// the type of the control.
const SETTINGS = [
  { key: 'table', words: 'Table', kinds: ['reference'], type: 'table' },
  { key: 'on_delete', words: 'If that row is deleted', kinds: ['reference'], type: 'select', options: ON_DELETE },
  { key: 'values', words: 'Values', kinds: ['enum'], type: 'words', hint: 'Separated by commas' },
  { key: 'dimensions', words: 'Number of floats', kinds: ['vector'], type: 'number' },
  { key: 'max', words: 'Maximum', kinds: ['text', 'integer'], type: 'number', hint: 'Characters, or the highest value' },
  { key: 'bytes_max', words: 'Maximum size in bytes', kinds: ['file'], type: 'number' },
  { key: 'types', words: 'Media types', kinds: ['file'], type: 'words', hint: 'Such as image/*, separated by commas' },
  { key: 'default', words: 'Default', kinds: ['text', 'integer', 'float', 'currency', 'boolean', 'date', 'time', 'timestamp', 'enum', 'uuid'], type: 'scalar' },
  { key: 'nullable', words: 'May be NULL', type: 'check' },
  { key: 'unique', words: 'Unique', type: 'check' },
  { key: 'index', words: 'Index', type: 'check' },
  { key: 'not_empty', words: 'Not empty', kinds: ['text', 'blob'], type: 'check' },
  { key: 'search', words: 'Full-text search', kinds: ['text'], type: 'check' },
  { key: 'immutable', words: 'Only set by the insert', type: 'check' },
]
const KNOWN = new Set(['kind', 'role', 'was', ...SETTINGS.map(setting => setting.key)])

const select = (options, chosen) => h('select', {}, options.map(([value, words]) => h('option', { value, selected: value === (chosen ?? '') }, words)))
const same = names => names.map(name => [name, name])
const detailsOf = field => typeof field === 'string' ? { kind: field } : field

// A value as it is in the file: numbers and booleans for kinds that have them, texts otherwise.
const scalar = (kind, text) => kind === 'boolean' ? text === 'true' : ['integer', 'float'].includes(kind) && text !== '' && isFinite(text) ? Number(text) : text

// The control of one setting. `read` returns the value for the file; undefined leaves the key out.
const settingControl = ({ key, words, type, options, hint }, details, names) => {
  const value = details[key]
  if (type === 'check') {
    const box = h('input', { type: 'checkbox', checked: value === true })
    return { element: h('label', { class: 'choice' }, box, words), read: () => box.checked || undefined }
  }
  const control = type === 'table' ? select(same(names), value) : type === 'select' ? select(options, value)
    : h('input', { type: type === 'number' ? 'number' : 'text', autocomplete: 'off', value: value === undefined ? '' : Array.isArray(value) ? value.join(', ') : String(value) })
  const parts = () => control.value.split(',').map(part => part.trim()).filter(Boolean)
  const read = kind => control.value === '' ? undefined : type === 'number' ? Number(control.value) : type === 'words' ? parts() : type === 'scalar' ? scalar(kind, control.value) : control.value
  return { element: labelled(words, control, { hint }), read }
}

// The controls of one field. `read` returns its name and details.
const fieldEditor = (name, field, names, remove) => {
  const details = detailsOf(field)
  const title = labelled('Field', h('input', { autocomplete: 'off', required: true, class: 'mono', value: name }))
  const kind = labelled('Kind', select(same(KINDS), details.kind))
  const role = labelled('Role', select(ROLES, details.role))
  const rest = Object.fromEntries(Object.entries(details).filter(([key]) => !KNOWN.has(key)))
  const more = labelled('Other settings', h('textarea', { class: 'mono', rows: 2, spellcheck: 'false', value: Object.keys(rest).length ? JSON.stringify(rest) : '' }),
    { hint: 'As JSON, such as {"email": true, "sanitizers": ["trim"]}' })
  const place = h('div', {})
  let controls = []
  const show = () => {
    const now = kind.target.value
    const shown = SETTINGS.filter(({ kinds }) => !kinds || kinds.includes(now))
    controls = shown.map(setting => [setting, settingControl(setting, details, names)])
    const of = isCheck => controls.filter(([{ type }]) => (type === 'check') === isCheck).map(([, { element }]) => element)
    fill(place, h('div', { class: 'row' }, of(false)), h('div', { class: 'choices' }, of(true)))
  }
  kind.target.addEventListener('change', show)
  show()
  const read = () => {
    const result = { kind: kind.target.value }
    if (role.target.value) result.role = role.target.value
    for (const [{ key }, control] of controls) {
      const value = control.read(result.kind)
      if (value !== undefined) result[key] = value
    }
    const now = title.target.value.trim()
    if (name && now !== name) result.was = name
    else if (details.was) result.was = details.was
    more.setError('')
    try {
      if (more.target.value.trim()) Object.assign(result, JSON.parse(more.target.value))
    } catch (error) {
      more.setError(`This is not JSON: ${error.message}`)
      throw new Error(`The other settings of ${now} are not JSON.`)
    }
    return [now, result]
  }
  const element = h('fieldset', { class: 'editor' }, h('legend', {}, name || 'New field'),
    h('div', { class: 'row' }, title, kind, role), place,
    h('details', { open: Object.keys(rest).length > 0 }, h('summary', {}, 'More'), more),
    h('div', { class: 'buttons' }, button(`Remove ${name || 'field'}`, remove, { kind: 'danger' })))
  return { element, read, title }
}

const EFFECTS = { safe: '', optional_loss: 'loses values if you allow it', needs_loss: 'loses values', refused: 'refused' }

// Shows what a file changes in the database, and applies it if that is confirmed. Resolves to true
// once it is applied.
const apply = async (app, tag) => {
  const send = (parameters = '') => saveApp(app, tag, parameters)
  const { data } = await send('?dry_run=true')
  return new Promise(resolve => {
    const allowed = []
    const line = step => {
      const isLoss = step.effect.endsWith('_loss')
      const box = isLoss && h('input', { type: 'checkbox' })
      if (box) allowed.push([step, box])
      return h('li', {}, isLoss ? h('label', { class: 'choice' }, box, step.text) : step.text,
        EFFECTS[step.effect] && [' ', h('span', { class: 'tag bad' }, EFFECTS[step.effect])], step.note && h('p', { class: 'hint' }, step.note))
    }
    const statements = data.steps.flatMap(step => step.statements)
    const save = async () => {
      const parameters = new URLSearchParams()
      for (const [step, box] of allowed.filter(([, box]) => box.checked)) {
        if (step.effect === 'needs_loss' && !step.column) parameters.set('allow_loss', 'true')
        else parameters.append('drop', `${step.table}.${step.column}`)
      }
      await send(parameters.size ? `?${parameters}` : '')
      resolve(true)
      dialog.close()
    }
    const dialog = openDialog('Changes of the database',
      data.steps.length === 0 ? h('p', {}, 'The database needs no change.') : h('ul', { class: 'plan' }, data.steps.map(line)),
      data.refusal && !data.steps.some(({ note }) => note && data.refusal.includes(note)) && h('p', { class: 'notice' }, data.refusal),
      statements.length > 0 && h('details', {}, h('summary', {}, 'SQL'), h('pre', { tabindex: 0 }, statements.map(one => `${one};`).join('\n'))),
      form([], { submit: 'Apply', send: save, extra: [button('Cancel', () => dialog.close())] }))
    dialog.addEventListener('close', () => resolve(false))
  })
}

const applied = async (app, tag, go, address) => {
  if (!await apply(app, tag)) return
  await loadTables()
  notify('Applied')
  await go(address)
}

export const schemaPage = async main => {
  const { app } = await loadApp()
  const fieldsOf = table => Object.entries(table.fields).map(([name, field]) => `${name}: ${detailsOf(field).kind}`).join(', ')
  fill(main,
    h('div', { class: 'title' }, h('h1', {}, 'Tables and fields'), h('span', { class: 'grow' }), h('a', { class: 'button primary', href: '#/schema-table' }, 'New table')),
    h('p', { class: 'muted' }, 'These tables are in the application file, which belongs in version control. A change shows what it does to the database before it is applied.'),
    list('Tables', ['Name', 'Fields'], Object.entries(app.tables).map(([name, table]) => [h('a', { href: `#/schema-table/${encodeURIComponent(name)}` }, name), fieldsOf(table)])))
}

const SHARES = [['', 'Administrators only'], ['read', 'Every user may read'], ['read,history,insert,update,delete', 'Every user may read and write']]
const NEW_TABLE = { fields: { id: { kind: 'integer', role: 'key' }, name: { kind: 'text', max: 200, not_empty: true } } }

// One table: its name, its fields, and for a new one who may use it.
export const schemaTablePage = async (main, [name], query, go) => {
  const { app, tag } = await loadApp()
  const table = name === undefined ? NEW_TABLE : app.tables[name]
  if (!table) { fill(main, h('h1', {}, 'No such table')); return }
  const names = [...new Set([...Object.keys(app.tables), ...name ? [name] : []])]
  const title = labelled('Name of the table', h('input', { autocomplete: 'off', required: true, class: 'mono', value: name ?? '' }), { hint: 'Lower-case letters, digits and _' })
  const history = h('input', { type: 'checkbox', checked: table.audit === true })
  const english = h('input', { type: 'checkbox', checked: table.search_language === 'english' })
  const share = name === undefined && labelled('Who may use it', select(SHARES))
  const fields = h('div', {})
  let editors = []
  const add = (field, details) => {
    const editor = fieldEditor(field, details, names, () => {
      editors = editors.filter(other => other !== editor)
      editor.element.remove()
    })
    editors.push(editor)
    fields.append(editor.element)
    return editor
  }
  Object.entries(table.fields).forEach(([field, details]) => add(field, details))
  const changed = () => {
    const now = title.target.value.trim()
    const result = { ...table, fields: Object.fromEntries(editors.map(editor => editor.read())) }
    if (Object.keys(result.fields).length < editors.length) throw new Error('Two fields have the same name.')
    if (history.checked) result.audit = true
    else delete result.audit
    if (english.checked) result.search_language = 'english'
    else delete result.search_language
    if (name && now !== name) result.was = name
    if (now !== name && app.tables[now]) throw new Error(`There is a table ${now} already.`)
    const tables = Object.entries(app.tables).map(([other, kept]) => other === name ? [now, result] : [other, kept])
    if (name === undefined) tables.push([now, result])
    const groups = structuredClone(app.groups)
    if (name && now !== name) Object.values(groups).flatMap(group => group.grants).filter(grant => grant.table === name).forEach(grant => { grant.table = now })
    if (share && share.target.value) {
      groups.everyone ??= { grants: [] }
      groups.everyone.grants.push({ table: now, rights: share.target.value.split(',') })
    }
    return { ...app, tables: Object.fromEntries(tables), groups }
  }
  const removal = () => {
    const { [name]: _, ...tables } = app.tables
    const groups = Object.fromEntries(Object.entries(app.groups).map(([group, of]) => [group, { ...of, grants: of.grants.filter(grant => grant.table !== name) }]))
    return { ...app, tables, groups }
  }
  const remove = async () => {
    if (!await confirmed(`Remove the table ${name} from the application? Its rows stay in the database.`, 'Remove')) return
    try { await applied(removal(), tag, go, '#/schema') } catch (error) { fail(error) }
  }
  const save = async () => {
    try {
      await applied(changed(), tag, go, '#/schema')
    } catch (error) {
      throw error.status === 412 ? Object.assign(new Error(describe(error)), { errors: [] }) : error
    }
  }
  fill(main,
    h('p', { class: 'crumbs' }, h('a', { href: '#/schema' }, 'Tables and fields')),
    h('h1', {}, name ? `Table ${name}` : 'New table'),
    form([title, h('label', { class: 'choice' }, history, 'Keep the history of its rows'), h('label', { class: 'choice' }, english, 'Searches find other forms of English words'), share, h('h2', {}, 'Fields'), fields,
      h('div', { class: 'buttons' }, button('Add field', () => add('', { kind: 'text' }).title.target.focus()))],
    { submit: 'Show changes', send: save, extra: [h('a', { class: 'button', href: '#/schema' }, 'Cancel'), name && button('Remove table', remove, { kind: 'danger' })] }))
}
