// The types of runtime.js, which do not depend on the tables.

export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue }

/** The description of a file, in its row. */
export interface FileInfo {
  readonly id: string
  readonly name: string
  readonly type: string
  readonly bytes: number
  readonly sha256: string
  readonly created: string
}

/** The types of a table; one for each table is generated. */
export interface TableTypes {
  /** The name of the table. */
  name: string
  key: string | number
  /** A row as it is read by default: without blobs. */
  row: object
  /** All fields, with blobs. */
  all: object
  insert: object
  patch: object
  /** Related rows, as `One<…>` or `Many<…>`. */
  relations: object
  /** The table of each reference field. */
  references: object
  files: string
  blobs: string
  numbers: string
  /** The fields that rows are ordered by. */
  ordered: string
}
/** A relation with at most one row. */
export interface One<T extends TableTypes> { readonly one: T }
/** A relation with any number of rows. */
export interface Many<T extends TableTypes> { readonly many: T }

/** A rule that a value breaks. */
export interface Violation {
  readonly field: string
  readonly value: string
  readonly rule: string
  readonly message: string
}

/** An answer with an error: a problem document (RFC 9457). */
export class Problem extends Error {
  constructor(document: object, status: number)
  readonly status: number
  readonly type: string
  readonly title: string
  readonly violations: readonly Violation[]
  readonly document: { readonly [name: string]: unknown }
}

// Conditions

/** A condition on rows, as text. */
export class Condition {
  constructor(text: string)
  readonly text: string
  and(...others: Condition[]): Condition
  or(...others: Condition[]): Condition
  not(): Condition
  toString(): string
}
export function and(...parts: Condition[]): Condition
export function or(...parts: Condition[]): Condition
/** The search fields of a table together have these words. */
export function search(words: string): Condition

interface Equality<V> {
  eq(value: V): Condition
  ne(value: V): Condition
  in(values: readonly NonNullable<V>[]): Condition
  notIn(values: readonly NonNullable<V>[]): Condition
}
interface Ordering<V> {
  lt(value: NonNullable<V>): Condition
  le(value: NonNullable<V>): Condition
  gt(value: NonNullable<V>): Condition
  ge(value: NonNullable<V>): Condition
}
interface TextTests {
  /** Contains this text; the case of A to Z is ignored. */
  contains(text: string): Condition
  /** Begins with this text; the case of A to Z is ignored. */
  startsWith(text: string): Condition
  /** Has these words, in a field with a search index. */
  matches(words: string): Condition
}
type Scalar = string | number | boolean | null
interface JsonColumn {
  eq(value: null): Condition
  ne(value: null): Condition
  /** Selects a value inside the JSON: members by name, elements by number. */
  at(...path: (string | number)[]): Equality<Scalar> & Ordering<Scalar> & TextTests & { exists(): Condition }
}
/** A field in a condition. */
export type Column<V> = [JsonValue] extends [V] ? JsonColumn
  : [NonNullable<V>] extends [FileInfo] ? JsonColumn
  : [NonNullable<V>] extends [readonly number[]] ? { eq(value: null): Condition, ne(value: null): Condition }
  : Equality<V> & Ordering<V> & ([string] extends [NonNullable<V>] ? TextTests : unknown)

type RelationColumns<R> =
  (R extends One<infer T> ? Columns<T> : unknown) & {
    any(where?: Where<TargetOf<R>>): Condition
    none(where?: Where<TargetOf<R>>): Condition
    count(where?: Where<TargetOf<R>>): Ordering<number> & Equality<number>
  }
/** The fields and relations of a table, in a condition. */
export type Columns<T extends TableTypes> = {
  readonly [K in keyof T['all'] | keyof T['relations']]:
    (K extends keyof T['all'] ? Column<T['all'][K]> : unknown) &
    (K extends keyof T['relations'] ? RelationColumns<T['relations'][K]> : unknown)
}
/** A condition: a function of the fields, a condition, or a text in the syntax of `filter`. */
export type Where<T extends TableTypes> = ((columns: Columns<T>) => Condition) | Condition | string

// Lists

type Field<T extends TableTypes> = keyof T['all'] & string
export type Order<T extends TableTypes> = T['ordered'] | `-${T['ordered']}`
type TargetOf<R> = R extends One<infer T> ? T : R extends Many<infer T> ? T : never

export interface ExpandOptions<T extends TableTypes> {
  where?: Where<T>
  order?: Order<T> | readonly Order<T>[]
  limit?: number
  fields?: readonly Field<T>[]
  expand?: Expand<T>
}
/** The relations whose rows are added to a row. */
export type Expand<T extends TableTypes> = {
  readonly [K in keyof T['relations']]?: true | ExpandOptions<TargetOf<T['relations'][K]>>
}
type Known<T extends TableTypes, E> = E & { readonly [K in Exclude<keyof E, keyof T['relations']>]: never }
type ExpandedRow<T extends TableTypes, O> =
  (O extends { fields: readonly (infer F)[] } ? Pick<T['all'], F & keyof T['all']> : T['row']) &
  (O extends { expand: infer E } ? { expand: Expanded<T, E> } : unknown)
type Expanded<T extends TableTypes, E> = {
  [K in keyof E & keyof T['relations']]: T['relations'][K] extends One<infer U>
    ? ExpandedRow<U, E[K]> | null
    : ExpandedRow<TargetOf<T['relations'][K]>, E[K]>[]
}
/** A row with the requested fields and related rows. */
export type Row<T extends TableTypes, F extends Field<T> = never, E = {}> =
  ([F] extends [never] ? T['row'] : Pick<T['all'], F>) &
  ([keyof E] extends [never] ? unknown : { expand: Expanded<T, E> })

interface RowOptions<T extends TableTypes, F extends Field<T>, E> {
  /** The fields to read. Default: all but blobs. */
  fields?: readonly F[]
  /** The relations whose rows are added as `expand`. */
  expand?: Known<T, E>
  signal?: AbortSignal
}
interface ListOptions<T extends TableTypes, F extends Field<T>, E> extends RowOptions<T, F, E> {
  where?: Where<T>
  order?: Order<T> | readonly Order<T>[]
  /** The maximum number of rows. Default: all. */
  limit?: number
  /** The number of rows of a page. Default: 100. */
  pageRows?: number
  /** Adds the number of all rows to `page()`. */
  count?: boolean
}
interface LiveOptions<T extends TableTypes, F extends Field<T>> {
  where?: Where<T>
  order?: Order<T> | readonly Order<T>[]
  /** The maximum number of rows. Default: 100. */
  limit?: number
  fields?: readonly F[]
  /** Adds the number of all rows. */
  count?: boolean
}
export interface Page<R> {
  readonly rows: R[]
  readonly next: string | null
  readonly count?: number
}
/** A list of rows, which is read page by page while it is iterated. */
export class Rows<R> implements AsyncIterable<R> {
  private constructor()
  [Symbol.asyncIterator](): AsyncGenerator<R, void, void>
  pages(): AsyncGenerator<R[], void, void>
  page(): Promise<Page<R>>
  all(): Promise<R[]>
  first(): Promise<R | undefined>
}
/** The state of a live query. */
export interface LivePage<R> {
  readonly rows: readonly R[]
  readonly next: string | null
  readonly count?: number
  /** True once the rows were received. */
  readonly ready: boolean
  /** The error that ended the query. */
  readonly error: Problem | null
}
/**
 * A list that is kept up to date. It is an async iterable of pages, and a store: `subscribe` and
 * `getSnapshot` for React's `useSyncExternalStore`, `subscribe` for Svelte.
 */
export class Live<R> implements AsyncIterable<LivePage<R>> {
  private constructor()
  [Symbol.asyncIterator](): AsyncGenerator<LivePage<R>, void, void>
  /** Calls the listener now and after each change. Returns a function that ends it. */
  readonly subscribe: (listener: (page: LivePage<R>) => void) => () => void
  readonly getSnapshot: () => LivePage<R>
}

// Writes

export type OnConflict = 'refuse' | 'ignore' | 'replace' | 'update'
export type Effect = 'inserted' | 'replaced' | 'updated' | 'ignored'
interface Expected { 
  /** The version that the row has to have; otherwise the error has the status 412. */
  version?: number
}
type Bytes = Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string

/** A table. */
export class Table<T extends TableTypes> {
  private constructor()
  list<F extends Field<T> = never, const E extends Expand<T> = {}>(options?: ListOptions<T, F, E>): Rows<Row<T, F, E>>
  live<F extends Field<T> = never>(options?: LiveOptions<T, F>): Live<Row<T, F>>
  get<F extends Field<T> = never, const E extends Expand<T> = {}>(key: T['key'], options?: RowOptions<T, F, E>): Promise<Row<T, F, E>>
  count(where?: Where<T>): Promise<number>
  /** Inserts a row, and returns it as it is stored. */
  insert(row: T['insert'], options?: { onConflict?: OnConflict }): Promise<T['row']>
  /** Inserts rows, all or none. */
  insertMany(rows: readonly T['insert'][], options?: { onConflict?: OnConflict }): Promise<{ keys: T['key'][], effects?: Effect[] }>
  /** Writes the whole row: fields that are missing get their defaults. */
  update(key: T['key'], row: T['insert'], options?: Expected): Promise<T['row']>
  /** Writes some fields. */
  patch(key: T['key'], row: T['patch'], options?: Expected): Promise<T['row']>
  delete(key: T['key'], options?: Expected): Promise<void>
  /** Deletes the rows with a condition, and returns their number. */
  deleteWhere(where: Where<T>): Promise<number>
  /** Adds to a number in the database, and returns the sum. */
  increment(key: T['key'], field: T['numbers'], by?: number): Promise<number>
  /** Writes the bytes of a file or blob field. The result describes the file; a blob has none. */
  upload<N extends T['files'] | T['blobs']>(key: T['key'], field: N, bytes: Bytes, options?: Expected & { name?: string, type?: string }): Promise<N extends T['files'] ? FileInfo : undefined>
  /** Reads the bytes of a file or blob field. */
  download(key: T['key'], field: T['files'] | T['blobs'], options?: { thumbnail?: `${number}x${number}`, signal?: AbortSignal }): Promise<Response>
  removeFile(key: T['key'], field: T['files']): Promise<void>
  /** Returns a URL of a file that needs no other authentication. */
  signedUrl(key: T['key'], field: T['files'], options?: { expiresIn?: number }): Promise<{ url: string, expires: string }>
}

/** The result of a write in a batch. In other writes it stands for the key of the row. */
export class Handle<N extends string = string, K = string | number> {
  private constructor()
  private readonly table: N
  /** The key of an inserted row, once the batch was sent. */
  readonly key: K
  /** The error of a write, in the mode `each`. */
  readonly error: Problem | undefined
  readonly result: { readonly status: number, readonly version?: number, readonly value?: number, readonly effect?: Effect } | undefined
}
/** A row whose references may be handles. */
export type WithHandles<T extends TableTypes, R> = {
  [K in keyof R]: K extends keyof T['references'] ? R[K] | Handle<T['references'][K] & string> : R[K]
}
export interface BatchTable<T extends TableTypes> {
  insert(row: WithHandles<T, T['insert']>, options?: { onConflict?: OnConflict }): Handle<T['name'], T['key']>
  update(key: T['key'] | Handle<T['name'], T['key']>, row: WithHandles<T, T['insert']>, options?: Expected): Handle<T['name'], T['key']>
  patch(key: T['key'] | Handle<T['name'], T['key']>, row: WithHandles<T, T['patch']>, options?: Expected): Handle<T['name'], T['key']>
  increment(key: T['key'] | Handle<T['name'], T['key']>, field: T['numbers'], by?: number): Handle<T['name'], T['key']>
  delete(key: T['key'] | Handle<T['name'], T['key']>, options?: Expected): Handle<T['name'], T['key']>
}
/** Writes that are sent together. */
export type Batch<Tables> = { readonly [N in keyof Tables]: Tables[N] extends TableTypes ? BatchTable<Tables[N]> : never } & {
  /** Sends the writes: all or none by default; with `each`, a write that fails stops no other. */
  run(options?: { mode?: 'all' | 'each' }): Promise<Handle[]>
}

// The client

export interface ClientOptions {
  /** The server, such as `https://shop.example.org`. */
  url: string
  /** A session token or an API key. Default: none. */
  token?: string | null
  /** The path of the API. Default: `/api`. */
  prefix?: string
  /** How often a request is sent, if nothing was written by the earlier ones. Default: 4. */
  attempts?: number
  /** Sends inserts and batches with an `Idempotency-Key`, so that they are repeated. Default: true. */
  idempotency?: boolean
  fetch?: typeof globalThis.fetch
}
export interface Session { readonly token?: string, readonly user: number, readonly ends_at: string }
export interface RequestOptions {
  query?: { readonly [name: string]: string | number | boolean | undefined }
  json?: unknown
  body?: Bytes
  headers?: { readonly [name: string]: string }
  signal?: AbortSignal
  /** Sends an `Idempotency-Key`. */
  once?: boolean
}
/** The connection to a server, with the requests that concern no single table. */
export class Client<Tables> {
  constructor(options: ClientOptions, tables: { readonly [property: string]: string })
  /** The session token or API key. */
  token: string | null
  /** Sends a request to a path of the API, and returns the response if it is a success. */
  request(method: string, path: string, options?: RequestOptions): Promise<Response>
  json(method: string, path: string, options?: RequestOptions): Promise<unknown>
  /** Signs in with a name and a password. In a browser, `cookie: true` keeps the session in a cookie. */
  signIn(name: string, password: string, options?: { cookie?: boolean }): Promise<Session>
  /** Ends the session, or all sessions of the user. */
  signOut(options?: { everywhere?: boolean }): Promise<void>
  /** Returns the caller and their sessions. */
  me(): Promise<{ readonly [name: string]: unknown }>
  /** Sets a password with a token that is valid once. */
  setPassword(name: string, token: string, password: string): Promise<Session>
  /** Changes the password and ends all sessions of the user. */
  changePassword(old: string, password: string): Promise<unknown>
  /** Collects several writes for one transaction. */
  batch(): Batch<Tables>
}
