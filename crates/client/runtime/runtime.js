// The parts of the client that do not depend on the tables. The types are in runtime.d.ts.

const ATTEMPTS = 4
const PAGE_ROWS = 100
const PART_BYTES = 4 << 20
const SILENCE_MAX = 45_000

/** An answer with an error: a problem document (RFC 9457). */
export class Problem extends Error {
  constructor(document, status) {
    super(document.detail ?? document.title ?? `The server answered ${status}`)
    this.name = 'Problem'
    this.status = status
    this.type = document.type ?? 'about:blank'
    this.title = document.title ?? ''
    this.violations = document.errors ?? []
    this.document = document
  }
  /** True if the sign-in needs the code of an authenticator app. */
  get needsCode() { return this.violations.some(({ field, rule }) => field === 'code' && rule === 'required') }
}

const quoted = text => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
const literal = value => (typeof value === 'string' ? quoted(value) : JSON.stringify(value))

/** A condition on rows, as text. */
export class Condition {
  constructor(text) { this.text = text }
  and(...others) { return and(this, ...others) }
  or(...others) { return or(this, ...others) }
  not() { return new Condition(`not (${this.text})`) }
  toString() { return this.text }
}
const joined = (word, parts) => new Condition(parts.map(part => `(${part.text})`).join(` ${word} `))
export const and = (...parts) => joined('and', parts)
export const or = (...parts) => joined('or', parts)
/** The search fields of a table together have these words. */
export const search = words => new Condition(`@ ${quoted(words)}`)
const PATH = Symbol('path')
/** The function of two fields of one row, which may be a related row: `city.near(lat, lon, …)`. */
const place = (name, latitude, longitude, numbers) => {
  const [, row, field] = /^(.*\.)?(.*)$/.exec(latitude[PATH])
  const other = longitude[PATH]
  if (!other.startsWith(row ?? '')) throw new TypeError(`${latitude[PATH]} and ${other} are not fields of one row`)
  return new Condition(`${row ?? ''}${name}(${[field, other.slice(row?.length ?? 0), ...numbers].join(', ')})`)
}
/** The point of two fields is within a distance of another point, in metres. */
export const near = (latitude, longitude, ...numbers) => place('near', latitude, longitude, numbers)
/** The point of two fields is in a box of degrees. */
export const within = (latitude, longitude, ...numbers) => place('within', latitude, longitude, numbers)

const comparison = sign => path => value => new Condition(`${path} ${sign} ${literal(value)}`)
const related = word => path => where =>
  new Condition(`${word}(${path}${where ? `, ${textOf(where)}` : ''})`)
const OPERATIONS = {
  eq: comparison('='), ne: comparison('!='), lt: comparison('<'), le: comparison('<='),
  gt: comparison('>'), ge: comparison('>='), contains: comparison('~'), startsWith: comparison('^'),
  matches: comparison('@'),
  in: path => values => new Condition(`${path} in (${values.map(literal).join(', ')})`),
  notIn: path => values => new Condition(`${path} not in (${values.map(literal).join(', ')})`),
  exists: path => () => new Condition(`${path} exists`),
  at: path => (...steps) =>
    column(path + steps.map(step => (typeof step === 'number' ? `[${step}]` : `.${quoted(step)}`)).join('')),
  any: related('any'), none: related('none'),
  count: path => where => column(related('count')(path)(where).text),
}
const column = path => new Proxy({}, {
  get: (_, name) => (name === PATH ? path : path && Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name](path) : column(path ? `${path}.${name}` : name)),
})
const textOf = where => {
  const condition = typeof where === 'function' ? where(column('')) : where
  return typeof condition === 'string' ? condition : condition.text
}

const expansion = expand => Object.entries(expand).flatMap(([name, options]) => {
  if (!options) return []
  const { where, order, limit, fields, expand } = options === true ? {} : options
  const parts = [
    fields && `fields=${fields.join()}`, where && `filter=${textOf(where)}`, order && `order=${[order].flat().join()}`,
    limit !== undefined && `limit=${limit}`, expand && `expand=${expansion(expand)}`,
  ].filter(Boolean)
  return [parts.length ? `${name}(${parts.join()})` : name]
}).join()

const queryOf = ({ where, order, fields, expand, count } = {}) => ({
  filter: where && textOf(where),
  order: order && [order].flat().join(),
  fields: fields?.join(),
  expand: expand && expansion(expand),
  count: count || undefined,
})

const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
  signal?.throwIfAborted()
  const end = () => { clearTimeout(timer); reject(signal.reason) }
  const timer = setTimeout(() => { signal?.removeEventListener('abort', end); resolve() }, milliseconds)
  signal?.addEventListener('abort', end, { once: true })
})
const delayOf = attempt => Math.min(100 * 2 ** attempt, 10_000) * (0.5 + Math.random() / 2)

const hex = character => `%${character.charCodeAt(0).toString(16)}`
const tagOf = version => (version === undefined ? {} : { 'If-Match': `"v${version}"` })

/** The connection to a server, with the requests that concern no single table. */
export class Client {
  #url
  #fetch
  #attempts
  #keys
  #tables

  constructor({ url, token = null, prefix = '/api', attempts = ATTEMPTS, idempotency = true, fetch = globalThis.fetch }, tables) {
    this.#url = url.replace(/\/+$/, '') + prefix
    this.token = token
    this.#attempts = attempts
    this.#keys = idempotency
    this.#fetch = (...request) => fetch(...request)
    this.#tables = tables
    for (const [property, name] of Object.entries(tables)) this[property] = new Table(this, name)
  }

  /** Sends a request, and again after failures in which nothing was written. */
  async request(method, path, { query = {}, json, body, headers = {}, signal, once = false } = {}) {
    const url = new URL(path.startsWith('/') ? new URL(this.#url).origin + path : `${this.#url}/${path}`)
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value)
    const sent = { ...headers }
    if (json !== undefined) { sent['Content-Type'] = 'application/json'; body = JSON.stringify(json) }
    if (this.token) sent.Authorization = `Bearer ${this.token}`
    if (once && this.#keys) sent['Idempotency-Key'] = crypto.randomUUID()
    for (let attempt = 1; ; attempt += 1) {
      const repeats = ['GET', 'HEAD'].includes(method) || 'Idempotency-Key' in sent
      let response
      try {
        response = await this.#fetch(url, { method, headers: sent, body, signal, credentials: 'include' })
      } catch (error) {
        if (signal?.aborted || !repeats || attempt >= this.#attempts) throw error
        await pause(delayOf(attempt), signal)
        continue
      }
      if (response.ok) return response
      if (response.status === 501 && 'Idempotency-Key' in sent) {
        // The server does not keep answers, and has done nothing.
        await response.body?.cancel()
        this.#keys = false
        delete sent['Idempotency-Key']
        continue
      }
      const after = response.headers.get('Retry-After')
      if (attempt < this.#attempts && (after !== null && [429, 503].includes(response.status))) {
        await response.body?.cancel()
        await pause(Math.min(Math.max(Number(after) * 1000 || 0, delayOf(attempt)), 10_000), signal)
        continue
      }
      throw await problemOf(response)
    }
  }

  async json(method, path, options) {
    const response = await this.request(method, path, options)
    return response.status === 204 ? undefined : response.json()
  }

  /** Signs in with a name and a password. In a browser, `cookie: true` keeps the session in a cookie. */
  async signIn(name, password, { cookie = false, code } = {}) {
    const session = await this.json('POST', 'auth/login', { json: { name, password, code, ...(cookie && { cookie }) } })
    this.token = session.token ?? null
    return session
  }

  /** Ends the session, or all sessions of the user. */
  async signOut({ everywhere = false } = {}) {
    await this.request('POST', everywhere ? 'auth/logout-everywhere' : 'auth/logout')
    this.token = null
  }

  me() { return this.json('GET', 'auth/me') }
  setPassword(name, token, password) { return this.json('POST', 'auth/set-password', { json: { name, token, password } }) }
  changePassword(old, password) { return this.json('POST', 'auth/password', { json: { old, new: password } }) }

  /** Collects several writes for one transaction. */
  batch() { return new Batch(this, this.#tables) }
}

const problemOf = async response => {
  const text = await response.text()
  let document
  try { document = JSON.parse(text) } catch { document = {} }
  return new Problem(document, response.status)
}

/** A list of rows, which is read page by page while it is iterated. */
export class Rows {
  #client
  #path
  #options
  constructor(client, path, options) { this.#client = client; this.#path = path; this.#options = options }

  /** Reads the first page. */
  page() {
    const { limit, pageRows = PAGE_ROWS, signal } = this.#options
    return this.#client.json('GET', this.#path, {
      query: { ...queryOf(this.#options), limit: limit === undefined ? pageRows : Math.min(limit, pageRows) }, signal,
    })
  }

  async *pages() {
    let left = this.#options.limit ?? Infinity
    if (left <= 0) return
    let page = await this.page()
    for (;;) {
      if (page.rows.length > left) page.rows.length = left
      yield page.rows
      left -= page.rows.length
      if (!page.next || left <= 0) return
      page = await this.#client.json('GET', page.next, { signal: this.#options.signal })
    }
  }

  async *[Symbol.asyncIterator]() { for await (const rows of this.pages()) yield* rows }
  async all() { return (await Array.fromAsync?.(this.pages()) ?? await collected(this.pages())).flat() }
  async first() { return (await new Rows(this.#client, this.#path, { ...this.#options, limit: 1 }).page()).rows[0] }
}
const collected = async pages => { const all = []; for await (const rows of pages) all.push(rows); return all }

const base64 = text => btoa(String.fromCharCode(...new TextEncoder().encode(text)))

/** A table. */
export class Table {
  #client
  #name
  constructor(client, name) { this.#client = client; this.#name = name }
  #path(key, ...rest) { return [this.#name, key, ...rest].map(encodeURIComponent).join('/') }

  list(options = {}) { return new Rows(this.#client, this.#name, options) }
  live(options = {}) { return new Live(this.#client, this.#name, options) }
  get(key, { fields, expand, signal } = {}) {
    return this.#client.json('GET', this.#path(key), { query: queryOf({ fields, expand }), signal })
  }
  async count(where) {
    const page = await this.#client.json('GET', this.#name, { query: { ...queryOf({ where, count: true }), limit: 0 } })
    return page.count
  }
  async groupBy(fields, { select = {}, where, having, order, limit, signal } = {}) {
    const values = Object.entries(select).map(([name, value]) => `${name}:${value}`)
    const query = { ...queryOf({ where, order }), group: fields.join() || undefined, select: values.join() || undefined, having: having && textOf(having), limit }
    return (await this.#client.json('GET', this.#name, { query, signal })).rows
  }
  async aggregate(select, { where, signal } = {}) { return (await this.groupBy([], { select, where, signal }))[0] }
  /** Lists the writes of an audited row, which may be deleted. */
  history(key, options = {}) { return new Rows(this.#client, this.#path(key, 'history'), options) }
  async insert(row, { onConflict } = {}) {
    const stored = await this.#client.json('POST', this.#name, { json: row, query: { on_conflict: onConflict }, once: !onConflict })
    // The kept answer of a table with hooks or files is the key alone.
    const [key, ...others] = Object.keys(stored)
    if (others.length || Object.keys(row).join() === key) return stored
    return this.get(stored[key]).catch(error => {
      if (error instanceof Problem && [401, 403, 404].includes(error.status)) return stored
      throw error
    })
  }
  insertMany(rows, { onConflict } = {}) {
    return this.#client.json('POST', this.#name, { json: rows, query: { on_conflict: onConflict }, once: !onConflict })
  }
  /** Inserts a row with related rows, and returns the keys of all rows. */
  insertNested(row) { return this.#client.json('POST', this.#name, { json: row, once: true }) }
  /** Writes fields of a row, and related rows; returns the keys of the written rows. */
  patchNested(key, row, options) { return this.patch(key, row, options) }
  update(key, row, { version } = {}) {
    return this.#client.json('PUT', this.#path(key), { json: row, headers: tagOf(version) })
  }
  patch(key, row, { version } = {}) {
    return this.#client.json('PATCH', this.#path(key), { json: row, headers: tagOf(version) })
  }
  async delete(key, { version } = {}) {
    await this.#client.request('DELETE', this.#path(key), { headers: tagOf(version) })
  }
  async deleteWhere(where) {
    return (await this.#client.json('DELETE', this.#name, { query: { filter: textOf(where) } })).deleted
  }
  async increment(key, field, by = 1) {
    return (await this.#client.json('POST', this.#path(key, field, 'increment'), { json: { by } }))[field]
  }
  /** Writes the bytes of a file or blob field. */
  upload(key, field, bytes, { name = bytes.name, type = bytes.type, version } = {}) {
    const headers = { 'Content-Type': type || 'application/octet-stream', ...tagOf(version) }
    if (name) headers['Content-Disposition'] = `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, hex)}`
    return this.#client.json('PUT', this.#path(key, field), { body: bytes, headers })
  }
  /** Writes the bytes of a file field in several requests, and continues after a lost connection. */
  async uploadInParts(key, field, bytes, { name = bytes.name, type = bytes.type, partBytes = PART_BYTES, url, onProgress, signal } = {}) {
    const blob = new Blob([bytes])
    const send = (method, path, headers, body) =>
      this.#client.request(method, path, { headers: { 'Tus-Resumable': '1.0.0', ...headers }, body, signal })
    const read = async () => (await this.get(key, { fields: [field], signal }))[field]
    if (!url) {
      const metadata = Object.entries({ filename: name, filetype: type }).filter(([, value]) => value)
        .map(([name, value]) => `${name} ${base64(value)}`)
      url = (await send('POST', this.#path(key, field, 'uploads'), { 'Upload-Length': `${blob.size}`, 'Upload-Metadata': metadata.join() })).headers.get('Location')
    }
    let sent = null
    for (let attempt = 1, last = false; blob.size;) {
      try {
        sent ??= Number((await send('HEAD', url)).headers.get('Upload-Offset'))
        onProgress?.({ url, sent, bytes: blob.size })
        if (sent >= blob.size) break
        last = sent + partBytes >= blob.size
        const headers = { 'Upload-Offset': `${sent}`, 'Content-Type': 'application/offset+octet-stream' }
        sent = Number((await send('PATCH', url, headers, blob.slice(sent, sent + partBytes))).headers.get('Upload-Offset'))
        attempt = 1
      } catch (error) {
        const { status = 500 } = error
        // The last part may have arrived: the server has forgotten the upload then.
        if (status === 404 && last && attempt > 1 && (await read())?.bytes === blob.size) break
        if (signal?.aborted || (status < 500 && status !== 409) || attempt >= ATTEMPTS) throw error
        sent = null
        await pause(delayOf(attempt), signal)
        attempt += 1
      }
    }
    return read()
  }
  download(key, field, { thumbnail, signal } = {}) {
    return this.#client.request('GET', this.#path(key, field), { query: { thumbnail }, signal })
  }
  async removeFile(key, field) { await this.#client.request('DELETE', this.#path(key, field)) }
  signedUrl(key, field, { expiresIn } = {}) {
    return this.#client.json('POST', this.#path(key, field, 'signed-url'), { query: { expires_in: expiresIn } })
  }
}

/** The result of a write in a batch. In other writes it stands for the key of the row. */
export class Handle {
  #index
  constructor(index) { this.#index = index; this.result = undefined }
  get key() {
    if (this.result === undefined) throw new Error('the batch of this handle has not been sent')
    return this.result.key
  }
  get error() { return this.result?.error && new Problem(this.result.error, this.result.status) }
  toJSON() { return this.result ? this.key : { $result: this.#index } }
}

/** Writes that are sent together. */
export class Batch {
  #client
  #operations = []
  #handles = []
  constructor(client, tables) {
    this.#client = client
    for (const [property, table] of Object.entries(tables)) {
      this[property] = {
        insert: (row, { onConflict } = {}) => this.#add({ insert: table, row, on_conflict: onConflict }),
        update: (key, row, { version } = {}) => this.#add({ update: table, key, row, version }),
        patch: (key, row, { version } = {}) => this.#add({ patch: table, key, row, version }),
        increment: (key, field, by = 1) => this.#add({ increment: table, key, field, by }),
        delete: (key, { version } = {}) => this.#add({ delete: table, key, version }),
      }
    }
  }
  #add(operation) {
    this.#operations.push(operation)
    const handle = new Handle(this.#handles.length)
    this.#handles.push(handle)
    return handle
  }
  /** Sends the writes: all or none by default; with `each`, a write that fails stops no other. */
  async run({ mode = 'all' } = {}) {
    const { results } = await this.#client.json('POST', 'batch', { json: { mode, operations: this.#operations }, once: true })
    results.forEach((result, index) => { this.#handles[index].result = result })
    return this.#handles
  }
}

/** Applies a JSON Patch (RFC 6902) with the operations add, remove and replace. The document is not changed. */
export const patched = (document, patch) => {
  for (const { op, path, value } of patch) {
    const steps = path.slice(1).split('/').map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    document = edited(document, steps, op, value)
  }
  return document
}
const edited = (part, [step, ...rest], op, value) => {
  const copy = Array.isArray(part) ? [...part] : { ...part }
  if (rest.length) copy[step] = edited(copy[step], rest, op, value)
  else if (!Array.isArray(copy)) { if (op === 'remove') delete copy[step]; else copy[step] = value }
  else if (op === 'add') copy.splice(step === '-' ? copy.length : Number(step), 0, value)
  else if (op === 'remove') copy.splice(Number(step), 1)
  else copy[step] = value
  return copy
}

/**
 * A list that is kept up to date. It is an async iterable of pages, and a store: `subscribe` and
 * `getSnapshot` for React's `useSyncExternalStore`, `subscribe` for Svelte.
 */
export class Live {
  #client
  #path
  #options
  #state = { rows: [], next: null, ready: false, error: null }
  #listeners = new Set()
  #connection = null
  #position
  #page = null

  constructor(client, path, options) { this.#client = client; this.#path = path; this.#options = options }

  getSnapshot = () => this.#state

  subscribe = listener => {
    // A listener that is added twice is called twice.
    const one = state => listener(state)
    this.#listeners.add(one)
    if (!this.#connection) this.#connect()
    one(this.#state)
    return () => {
      this.#listeners.delete(one)
      if (this.#listeners.size === 0) { this.#connection?.abort(); this.#connection = null }
    }
  }

  /** Yields the newest page after each change. A slow reader misses pages, not changes. */
  async *[Symbol.asyncIterator]() {
    let newest = null
    let wake = () => {}
    const end = this.subscribe(state => { newest = state; wake() })
    try {
      for (;;) {
        const state = newest
        newest = null
        if (state?.error) throw state.error
        if (state?.ready) yield state
        if (newest === null) await new Promise(resolve => { wake = resolve })
      }
    } finally { end() }
  }

  #set(change) {
    this.#state = { ...this.#state, ...change }
    for (const listener of [...this.#listeners]) listener(this.#state)
  }

  async #connect() {
    const connection = new AbortController()
    this.#connection = connection
    if (this.#state.error) this.#set({ error: null })
    for (let attempt = 0; !connection.signal.aborted; attempt += 1) {
      try {
        await this.#follow(connection.signal, () => { attempt = 0 })
      } catch (error) {
        if (connection.signal.aborted) return
        if (error instanceof Problem && error.status < 500 && error.status !== 429 || error.status === 501) {
          this.#connection = null
          return this.#set({ error })
        }
      }
      await pause(delayOf(attempt), connection.signal).catch(() => {})
    }
  }

  async #follow(stop, received) {
    const silence = new AbortController()
    const end = () => silence.abort()
    stop.addEventListener('abort', end)
    let timer
    const heard = () => { clearTimeout(timer); timer = setTimeout(end, SILENCE_MAX) }
    try {
      const headers = { Accept: 'text/event-stream' }
      if (this.#position) headers['Last-Event-ID'] = this.#position
      const { limit = PAGE_ROWS } = this.#options
      heard()
      const response = await this.#client.request('GET', this.#path, {
        query: { ...queryOf(this.#options), limit }, headers, signal: silence.signal,
      })
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let text = ''; ;) {
        const { done, value } = await reader.read()
        if (done) return
        heard()
        received()
        text += value
        const events = text.split('\n\n')
        text = events.pop()
        for (const event of events) this.#apply(event)
      }
    } finally {
      clearTimeout(timer)
      stop.removeEventListener('abort', end)
      silence.abort()
    }
  }

  #apply(event) {
    const fields = {}
    for (const line of event.split('\n')) {
      const colon = line.indexOf(':')
      if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, '')
    }
    if (!fields.data) return
    const data = JSON.parse(fields.data)
    if (fields.event === 'snapshot') this.#page = data
    else if (fields.event === 'patch') this.#page = patched(this.#page, data)
    else if (fields.event === 'error') throw new Problem(data, data.status)
    else return
    this.#position = fields.id
    this.#set({ ...this.#page, ready: true })
  }
}
