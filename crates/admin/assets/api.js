// Requests to the REST API, with the session's cookie.

import { parse } from './json.js'

// `api` is the prefix of the API; `title` and `version` are those of the program.
export const settings = await (await fetch('/admin/assets/settings.json')).json()

// An error of the API: a problem document (RFC 9457).
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? document.title ?? `The server answered ${status}.`)
    this.status = status
    // That of its kind.
    this.title = document.title
    this.errors = document.errors ?? []
  }
}

// The URL of a path of the API; paths that the API returned are complete.
export const urlOf = path =>
  path.startsWith(`${settings.api}/`) || path === settings.api ? path : settings.api + path

// The path of a row, or of a part of it.
export const rowPath = (table, key, ...parts) =>
  ['', table, String(key), ...parts].map(encodeURIComponent).join('/')

// Sends a request, and returns the response with its `data`. A `body` is sent as JSON, except files
// and forms.
export const request = async (method, path, { body, headers = {} } = {}) => {
  const isRaw = body instanceof Blob || body instanceof FormData
  if (body !== undefined && !isRaw) {
    headers = { 'Content-Type': 'application/json', ...headers }
    body = JSON.stringify(body)
  }
  let response
  try {
    response = await fetch(urlOf(path), { method, body, headers })
  } catch {
    throw new Problem(0, { detail: 'The server cannot be reached.' })
  }
  const text = await response.text()
  const isJson = /[/+]json\b/.test(response.headers.get('Content-Type') ?? '')
  const data = isJson && text ? parse(text) : text
  if (!response.ok) throw new Problem(response.status, isJson ? data : {})
  return { status: response.status, headers: response.headers, data }
}

export const get = async (path, headers) => (await request('GET', path, { headers })).data
export const send = async (method, path, body, headers) => (await request(method, path, { body, headers })).data

// The application file, with the tag that a change of it names.
export const loadApp = async () => {
  const { data, headers } = await request('GET', '/-/app')
  return { app: { tables: {}, groups: {}, ...data }, tag: headers.get('ETag') }
}

export const saveApp = (app, tag, parameters = '') => request('PUT', `/-/app${parameters}`, { body: app, headers: { 'If-Match': tag } })

// The tables that the caller may use, by name.
export const tables = new Map()

export const loadTables = async () => {
  const { tables: found } = await get('')
  tables.clear()
  for (const table of found) {
    table.fieldOf = Object.fromEntries(table.fields.map(field => [field.name, field]))
    table.keyField = table.fieldOf[table.key]
    table.version = table.fields.find(field => field.role === 'version')?.name
    table.may = right => !table.rights || table.rights.includes(right)
    tables.set(table.name, table)
  }
}

// The field that names a row for people.
export const labelField = table => {
  const texts = table.fields.filter(field => field.kind === 'text' && field.name !== table.key)
  const named = name => texts.find(field => field.name === name)
  return named('title') ?? named('name') ?? named('last_name') ?? named('label') ?? texts.find(field => field.unique) ?? texts[0]
}

// Who is logged in. `accounts` is false if the server does not authenticate callers; `hasApp` is true if
// the caller may change the tables of an application file; `has` names the optional routes of the server;
// `writesSql` is true if SQL may change rows.
export const session = { accounts: false, setup: false, user: null, hasApp: false, has: {}, writesSql: false }

const OPTIONAL = { jobs: '/-/jobs', log: '/-/log', backups: '/-/backups', replication: '/-/replication', access: '/-/access', sql: '/-/sql' }

export const loadSession = async () => {
  const ifFound = status => error => { if (error.status !== status) throw error; return null }
  const setup = await get('/auth/setup').catch(ifFound(404))
  session.accounts = setup !== null
  session.setup = setup?.needed ?? false
  session.user = session.accounts ? await get('/auth/me').catch(ifFound(401)) : null
  session.hasApp = isAdmin() && await get('/-/app').then(() => true, ifFound(404)) === true
  session.has = {}
  session.writesSql = false
  if (session.accounts && !isAdmin()) return
  const paths = (await get('/openapi.json').catch(ifFound(404)))?.paths ?? {}
  for (const [name, path] of Object.entries(OPTIONAL)) session.has[name] = urlOf(path) in paths
  const statement = paths[urlOf('/-/sql')]?.post.requestBody.content['application/json'].schema
  session.writesSql = 'write' in (statement?.properties ?? {})
}

export const isAdmin = () => session.user?.is_admin ?? false
