// The documentation of the API, made from its OpenAPI document.

import { loadSession, session, settings, urlOf } from './api.js'
import { button, describe, fill, h, labelled, list, newId, notify } from './dom.js'
import { parse } from './json.js'
import { snippets } from './snippets.js'

const main = document.getElementById('main')
const navigation = document.getElementById('navigation')
const menu = document.getElementById('menu')
const METHODS = ['get', 'post', 'put', 'patch', 'delete']
let openApi

// The target of a `$ref` inside the document.
const resolved = value => {
  if (!value?.$ref) return value
  const steps = value.$ref.slice(2).split('/').map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  return steps.reduce((part, step) => part?.[step], openApi)
}

const nameOf = ref => ref.split('/').pop()

// A schema with the members of `allOf`.
const merged = schema => {
  const all = resolved(schema) ?? {}
  if (!all.allOf) return all
  return all.allOf.map(merged).reduce((whole, part) => ({ ...whole, ...part, properties: { ...whole.properties, ...part.properties } }), { ...all, allOf: undefined })
}

// A text with `code` in backticks.
const prose = text => (text ?? '').split('`').map((part, at) => at % 2 === 1 ? h('code', {}, part) : part)

const typeOf = schema => {
  if (!schema) return 'any'
  if (schema.$ref) return nameOf(schema.$ref)
  const several = schema.oneOf ?? schema.anyOf
  if (several) return several.map(typeOf).join(' or ')
  if (schema.allOf) return schema.allOf.map(typeOf).join(' and ')
  if (schema.enum) return schema.enum.map(value => JSON.stringify(value)).join(' | ')
  const types = [schema.type ?? 'any'].flat().join(' or ')
  const inner = schema.type === 'array' ? ` of ${typeOf(schema.items)}` : ''
  return types + inner + (schema.format ? ` (${schema.format})` : '')
}

const limits = schema => {
  const of = (name, text) => schema[name] !== undefined && `${text} ${typeof schema[name] === 'object' ? JSON.stringify(schema[name]) : schema[name]}`
  return [schema.description, of('minLength', 'at least'), of('maxLength', 'at most'), of('minimum', 'from'), of('maximum', 'to'),
    of('pattern', 'pattern'), of('default', 'default'), schema.readOnly && 'read only'].filter(Boolean).join('; ')
}

// The members of a schema as a table.
const members = (label, schema) => {
  const whole = merged(schema)
  const inner = whole.type === 'array' ? merged(whole.items) : whole
  const properties = Object.entries(inner.properties ?? {})
  if (properties.length === 0) return h('p', {}, h('code', {}, typeOf(schema)), ' ', limits(whole))
  const required = inner.required ?? []
  return list(label, ['Member', 'Type', 'Meaning'], properties.map(([name, one]) => [
    [h('code', {}, name), required.includes(name) && h('span', { class: 'required' }, ' required')], h('code', {}, typeOf(one)), prose(limits(resolved(one) ?? {}))]))
}

// A value that fits a schema, for the body of a first try.
const example = (schema, depth = 0) => {
  const whole = merged(schema)
  if (depth > 4) return null
  if (whole.default !== undefined) return whole.default
  if (whole.enum) return whole.enum[0]
  const several = whole.oneOf ?? whole.anyOf
  if (several) return example(several[0], depth)
  const type = [whole.type].flat()[0]
  if (whole.properties) {
    const names = whole.required ?? Object.keys(whole.properties)
    return Object.fromEntries(names.filter(name => whole.properties[name]).map(name => [name, example(whole.properties[name], depth + 1)]))
  }
  const formats = { date: '2026-01-31', 'date-time': '2026-01-31T12:00:00Z', uuid: '00000000-0000-4000-8000-000000000000', email: 'ada@example.org' }
  switch (type) {
    case 'integer': case 'number': return whole.minimum > 1 ? whole.minimum : 1
    case 'boolean': return true
    case 'array': return [example(whole.items, depth + 1)]
    case 'object': return {}
    case 'string': return formats[whole.format] ?? 'text'
    default: return null
  }
}

const tryIt = (method, path, operation) => {
  const parameters = (operation.parameters ?? []).map(resolved)
  const content = resolved(operation.requestBody)?.content
  const [mediaType, media] = Object.entries(content ?? {})[0] ?? []
  const fields = parameters.map(parameter => {
    const values = parameter.schema?.enum ?? (parameter.schema?.type === 'boolean' ? ['true', 'false'] : null)
    const control = values
      ? h('select', {}, h('option', { value: '' }, ''), values.map(value => h('option', {}, value)))
      : h('input', { autocomplete: 'off', spellcheck: 'false' })
    const field = labelled([parameter.name, h('span', { class: 'kind' }, ` ${parameter.in}`)], control, { required: parameter.required, hint: parameter.description && prose(parameter.description) })
    return { parameter, field, value: () => control.value }
  })
  const text = media && /json/.test(mediaType) ? JSON.stringify(example(media.schema), null, 2) : ''
  const body = media && labelled('Body', h('textarea', { class: 'mono', rows: Math.min(12, text.split('\n').length + 1), spellcheck: 'false' }, text), { hint: mediaType })
  const needsToken = session.accounts && !session.user
  const token = needsToken && labelled('Token', h('input', { type: 'password', autocomplete: 'off' }), { hint: 'A session or an API key. Or sign in at the administration.' })

  const call = () => {
    let url = path
    const query = new URLSearchParams()
    const headers = {}
    for (const { parameter, value } of fields) {
      const given = value()
      if (parameter.in === 'path') url = url.replace(`{${parameter.name}}`, given === '' ? `{${parameter.name}}` : encodeURIComponent(given))
      else if (given !== '' && parameter.in === 'query') query.set(parameter.name, given)
      else if (given !== '' && parameter.in === 'header') headers[parameter.name] = given
    }
    if (body) headers['Content-Type'] = mediaType
    return { method: method.toUpperCase(), url: url + (query.size ? `?${query}` : ''), headers, body: body ? body.target.value : undefined }
  }

  const source = h('pre', { tabindex: 0, class: 'mono', 'aria-label': 'Source' })
  let language = 'curl'
  const showSource = () => {
    const one = call()
    const headers = session.accounts ? { Authorization: 'Bearer TOKEN', ...one.headers } : one.headers
    source.textContent = snippets({ ...one, url: location.origin + one.url, headers })[language]
  }
  const tabs = ['curl', 'TypeScript', 'Python'].map(name => button(name, () => {
    language = name
    tabs.forEach(tab => tab.setAttribute('aria-pressed', String(tab.textContent === name)))
    showSource()
  }, { 'aria-pressed': String(name === language) }))
  const copy = button('Copy', () => navigator.clipboard.writeText(source.textContent).then(() => notify('Copied'), () => {}))

  const answer = h('div', { role: 'status' })
  const sendIt = async event => {
    event.preventDefault()
    const { method, url, headers, body } = call()
    const missing = fields.find(({ parameter, value }) => parameter.in === 'path' && value() === '')
    missing?.field.setError('is required')
    if (missing) { missing.field.target.focus(); return }
    fields.forEach(({ field }) => field.setError(''))
    if (token && token.target.value) headers.Authorization = `Bearer ${token.target.value}`
    const begun = performance.now()
    try {
      const response = await fetch(url, { method, headers, body })
      const text = await response.text()
      let shown = text
      try { shown = JSON.stringify(parse(text), null, 2) } catch { /* It is not JSON. */ }
      const took = Math.round(performance.now() - begun)
      fill(answer, h('h3', {}, 'Answer'), h('p', {}, h('span', { class: `tag ${response.ok ? 'good' : 'bad'}` }, `${response.status} ${response.statusText}`), ` ${took} ms`),
        ['ETag', 'Location', 'Marmota-Position'].filter(name => response.headers.has(name)).map(name => h('p', { class: 'mono' }, `${name}: ${response.headers.get(name)}`)),
        h('pre', { tabindex: 0, class: 'mono', 'aria-label': 'Body of the answer' }, shown.slice(0, 200_000)))
    } catch (error) { fill(answer, h('p', { class: 'error' }, describe(error))) }
  }
  const important = ({ parameter }) => parameter.required || ['filter', 'order', 'limit', 'fields'].includes(parameter.name)
  const rest = fields.filter(field => !important(field))
  const form = h('form', { onsubmit: sendIt, novalidate: true, oninput: showSource, class: 'try' },
    fields.filter(important).map(({ field }) => field),
    rest.length > 0 && h('details', {}, h('summary', {}, `${rest.length} more parameters`), rest.map(({ field }) => field)),
    body, token, h('div', { class: 'buttons' }, h('button', { class: 'primary' }, 'Send')), answer)
  showSource()
  return h('div', {}, h('h3', {}, 'Source'), h('div', { class: 'buttons', role: 'group', 'aria-label': 'Language' }, tabs, copy), source, h('h3', {}, 'Try it'), form)
}

const responses = operation => Object.entries(operation.responses ?? {}).map(([status, response]) => {
  const { description, content } = resolved(response) ?? {}
  const [mediaType, media] = Object.entries(content ?? {})[0] ?? []
  return [h('code', {}, status), prose(description), media ? [h('code', {}, typeOf(media.schema)), ' ', h('span', { class: 'muted' }, mediaType)] : '']
})

const inside = (method, path, operation) => {
  const parameters = (operation.parameters ?? []).map(resolved)
  const content = Object.entries(resolved(operation.requestBody)?.content ?? {})
  return [
    operation.description && h('p', {}, prose(operation.description)),
    parameters.length > 0 && [h('h3', {}, 'Parameters'), list('Parameters', ['Name', 'In', 'Type', 'Meaning'], parameters.map(parameter => [
      [h('code', {}, parameter.name), parameter.required && h('span', { class: 'required' }, ' required')], parameter.in, h('code', {}, typeOf(parameter.schema)), prose(parameter.description)]))],
    content.length > 0 && [h('h3', {}, 'Body'), content.map(([mediaType, { schema }]) => [
      h('p', {}, h('code', {}, mediaType), ' ', typeOf(schema)), /json$/.test(mediaType) && members(`Body, ${mediaType}`, (schema?.oneOf ?? [schema])[0])])],
    h('h3', {}, 'Answers'), list('Answers', ['Status', 'Meaning', 'Body'], responses(operation)),
    tryIt(method, path, operation),
  ]
}

const anchor = operation => operation.operationId.replaceAll(/[^\w.-]/g, '-')

const operationOf = (method, path, operation) => {
  const place = h('div', { class: 'inside' })
  const element = h('details', { class: 'operation', id: anchor(operation) },
    h('summary', {}, h('span', { class: `method ${method}` }, method.toUpperCase()), ' ', h('code', {}, path), ' ', h('span', { class: 'muted' }, prose(operation.summary))), place)
  element.addEventListener('toggle', () => {
    if (element.open && !place.hasChildNodes()) fill(place, inside(method, path, operation))
  })
  return element
}

const openTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  if (target?.tagName !== 'DETAILS') return
  const find = main.querySelector('input[type=search]')
  find.value = ''
  find.dispatchEvent(new Event('input'))
  target.open = true
  target.scrollIntoView()
  target.querySelector('summary').focus({ preventScroll: true })
}

const show = async () => {
  await loadSession()
  const response = await fetch(urlOf('/openapi.json'))
  if (response.status === 401) {
    fill(main, h('h1', {}, 'API documentation'), h('p', {}, 'The documentation shows the operations that you may use. ',
      h('a', { href: '/admin' }, 'Sign in at the administration'), ' first.'))
    return
  }
  openApi = parse(await response.text())
  const groups = new Map()
  for (const [path, item] of Object.entries(openApi.paths)) {
    for (const method of METHODS.filter(method => item[method])) {
      const operation = { ...item[method], parameters: [...item.parameters ?? [], ...item[method].parameters ?? []] }
      operation.operationId ??= `${method}-${path}`
      const tag = operation.tags?.[0] ?? 'general'
      groups.set(tag, [...groups.get(tag) ?? [], { method, path, operation }])
    }
  }
  const schemas = Object.entries(openApi.components?.schemas ?? {})
  const find = h('input', { type: 'search', autocomplete: 'off' })
  const sections = [...groups].map(([tag, operations]) => {
    const id = newId()
    return h('section', { 'aria-labelledby': id }, h('h2', { id }, tag), operations.map(({ method, path, operation }) => operationOf(method, path, operation)))
  })
  find.addEventListener('input', () => {
    const wanted = find.value.toLowerCase()
    for (const section of sections) {
      const all = [...section.querySelectorAll('.operation')]
      all.forEach(one => { one.hidden = !one.firstChild.textContent.toLowerCase().includes(wanted) })
      section.hidden = all.every(one => one.hidden)
    }
  })
  fill(main, h('h1', {}, openApi.info.title === 'API' ? `API of ${settings.title}` : openApi.info.title),
    h('p', { class: 'muted' }, 'OpenAPI document: ', h('a', { href: urlOf('/openapi.json') }, urlOf('/openapi.json')),
      session.user ? `. You are ${session.user.name}; requests have your rights.` : ''),
    labelled('Find an operation', find), sections,
    schemas.length > 0 && h('section', {}, h('h2', {}, 'Schemas'), schemas.map(([name, schema]) => h('details', { class: 'operation', id: `schema-${name}` },
      h('summary', {}, h('code', {}, name)), h('div', { class: 'inside' }, members(name, schema))))))
  fill(navigation, [...groups].map(([tag, operations]) => [h('h2', {}, tag), h('ul', {}, operations.map(({ method, operation }) => h('li', {},
    h('a', { href: `#${anchor(operation)}` }, h('span', {}, prose(operation.summary ?? operation.operationId)), h('span', { class: `method ${method}` }, method.toUpperCase())))))]))
  openTarget()
}

document.getElementById('name').textContent = settings.title
menu.addEventListener('click', () => menu.setAttribute('aria-expanded', String(navigation.classList.toggle('open'))))
addEventListener('hashchange', () => { navigation.classList.remove('open'); menu.setAttribute('aria-expanded', 'false'); openTarget() })
try {
  await show()
} catch (error) {
  fill(main, h('h1', {}, 'API documentation'), h('p', { class: 'error', role: 'alert' }, describe(error)))
}
