// Elements, messages and dialogs.

import { t, translated } from './texts.js'

const PROPERTIES = new Set(['value', 'checked', 'selected', 'indeterminate', 'disabled', 'textContent'])

// An element. `on…` is a listener; null, undefined and false leave an attribute or child out.
export const h = (tag, attributes, ...children) => {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (PROPERTIES.has(name)) element[name] = value
    else element.setAttribute(name, value === true ? '' : value)
  }
  element.append(...nodes(children))
  return element
}

const nodes = children =>
  children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false)

export const fill = (element, ...children) => element.replaceChildren(...nodes(children))

let ids = 0
export const newId = () => `id-${++ids}`

// A control with its label, and a hint or an error below it.
export const labelled = (text, control, { hint, required } = {}) => {
  control.id ||= newId()
  const about = h('p', { class: 'hint', id: newId() }, hint)
  const error = h('p', { class: 'error', id: newId() })
  const inner = control.matches('input, select, textarea') ? control : control.querySelector('input, select, textarea')
  const target = inner ?? control
  target.id ||= newId()
  target.setAttribute('aria-describedby', `${about.id} ${error.id}`)
  const label = h('label', { for: target.id }, text, required && h('span', { class: 'required', title: 'required' }, ' *'))
  const element = h('div', { class: 'field' }, label, control, hint ? about : null, error)
  element.setError = message => {
    error.textContent = message ?? ''
    if (message) target.setAttribute('aria-invalid', 'true')
    else target.removeAttribute('aria-invalid')
  }
  element.target = target
  return element
}

export const button = (text, onclick, { kind = '', ...rest } = {}) =>
  h('button', { type: 'button', class: kind, onclick, ...rest }, text)

// Shows a message for some seconds; errors stay until they are closed.
export const notify = (text, kind = 'ok') => {
  const area = document.getElementById('messages')
  if (kind === 'ok') area.querySelectorAll('.message.ok').forEach(old => old.remove())
  const message = h('div', { class: `message ${kind}` }, h('span', {}, text))
  message.append(button(t('Close'), () => message.remove(), { kind: 'plain' }))
  area.append(message)
  if (kind === 'ok') setTimeout(() => message.remove(), 6000)
}

export const clearErrors = () =>
  document.querySelectorAll('#messages .message.bad').forEach(message => message.remove())

const ofField = ({ message }) => translated(message, 'is not valid')

// The description of an error, with the fields at fault.
export const describe = error => {
  const others = (error.errors ?? []).filter(({ message }) => !error.message.includes(message))
  const fields = others.map(one => `${one.field} ${ofField(one)}`)
  return [translated(error.message, error.title), ...fields].join(' · ')
}

export const fail = error => notify(describe(error), 'bad')

// A dialog, which returns the element. `close` ends it.
export const openDialog = (title, ...children) => {
  const heading = h('h2', { id: newId() }, title)
  const dialog = h('dialog', { 'aria-labelledby': heading.id, onclose: () => dialog.remove() }, heading, children)
  document.body.append(dialog)
  dialog.showModal()
  return dialog
}

// Asks a question; resolves to true if it is confirmed.
export const confirmed = (question, action) => new Promise(resolve => {
  const dialog = openDialog(question, h('div', { class: 'buttons' },
    button(action, () => { resolve(true); dialog.close() }, { kind: 'danger' }),
    button(t('Cancel'), () => dialog.close())))
  dialog.addEventListener('close', () => resolve(false))
})

// A text that is shown once, to be copied.
export const secret = (label, text) => {
  const field = h('input', { readonly: true, value: text, class: 'mono', onfocus: () => field.select() })
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      notify(t('Copied'))
    } catch { field.select() }
  }
  return h('div', { class: 'secret' }, labelled(label, field), button(t('Copy'), copy))
}

// A form whose submit runs `send`; meanwhile its buttons are disabled. Errors of fields are shown at
// `fields[name]`, others above the buttons.
export const form = (children, { submit, send, fields = {}, extra = [] }) => {
  const alert = h('p', { class: 'error', role: 'alert' })
  const main = h('button', { class: 'primary' }, submit)
  const onsubmit = async event => {
    event.preventDefault()
    main.disabled = true
    alert.textContent = ''
    Object.values(fields).forEach(field => field.setError(''))
    try {
      await send()
    } catch (error) {
      const others = (error.errors ?? []).filter(one => {
        fields[one.field]?.setError(ofField(one))
        return !fields[one.field]
      })
      // If each fault is shown at its field, the message would repeat them.
      if (others.length > 0 || !error.errors?.length) alert.textContent = describe({ message: error.message, title: error.title, errors: others })
      Object.values(fields).find(field => field.target.hasAttribute('aria-invalid'))?.target.focus()
    }
    main.disabled = false
  }
  return h('form', { novalidate: true, onsubmit }, children, alert, h('div', { class: 'buttons' }, main, extra))
}

// A table for reading. Columns are texts, or `[text, class]`.
export const list = (label, columns, rows, empty = 'Nothing yet.') => rows.length === 0
  ? h('p', { class: 'muted' }, empty)
  : h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, h('table', {},
    h('caption', { class: 'hidden' }, label),
    h('thead', {}, h('tr', {}, columns.map(column => h('th', { scope: 'col', class: [column].flat()[1] }, [column].flat()[0])))),
    h('tbody', {}, rows.map(row => h('tr', {}, row.map((cell, at) => h('td', { class: [columns[at]].flat()[1] }, cell)))))))

export const time = text => text
  ? h('time', { datetime: text, title: text }, text.replace('T', ' ').replace(/(\.\d+)?Z$/, ''))
  : h('span', { class: 'muted' }, '–')
