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
  /** The name of the key field. */
  keyField: string
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
  /** The tables that refer to this one, each with its reference field. */
  referring: object
  files: string
  blobs: string
  numbers: string
  /** The fields that rows are ordered by. */
  ordered: string
  /** The fields that rows are grouped by. */
  grouped: string
  /** The fields with a sum and a mean. */
  summed: string
  /** The fields with a lowest and a highest value. */
  ranged: string
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
  /** True if the sign-in needs the code of an authenticator app. */
  readonly needsCode: boolean
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
/** The point of two float fields is within a distance of another point, in metres. */
export function near(latitudeField: Ordering<number>, longitudeField: Ordering<number>, latitude: number, longitude: number, radius: number): Condition
/** The point of two float fields is in a box, in degrees. West is greater than east in a box that contains the meridian of 180 degrees. */
export function within(latitudeField: Ordering<number>, longitudeField: Ordering<number>, south: number, west: number, north: number, east: number): Condition

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

// Groups

/** A value that is computed for each group. */
export type Aggregate<T extends TableTypes> = 'count' | `count(${Field<T>})` | `${'sum' | 'avg'}(${T['summed']})` | `${'min' | 'max'}(${T['ranged']})`
type AggregateValue<T extends TableTypes, A> = A extends 'count' | `count(${string})` ? number
  : A extends `${'min' | 'max'}(${infer F extends keyof T['all'] & string})` ? NonNullable<T['all'][F]> | null
  : number | null
type ReferenceOf<T extends TableTypes> = keyof T['references'] & keyof T['relations'] & string
type RowOf<T extends TableTypes, R> = R extends keyof T['relations'] ? T['relations'][R] extends One<infer U> ? U : never : never
/** A field to group by: of the row, or of the row to which one or two references lead. */
export type GroupPath<T extends TableTypes> = T['grouped'] | { [R in ReferenceOf<T>]:
  `${R}.${RowOf<T, R>['grouped'] | { [Q in ReferenceOf<RowOf<T, R>>]: `${Q}.${RowOf<RowOf<T, R>, Q>['grouped']}` }[ReferenceOf<RowOf<T, R>>]}`
}[ReferenceOf<T>]
type MemberOf<P extends string> = P extends `${infer R}.${infer Rest}` ? `${R}_${MemberOf<Rest>}` : P
type PathValue<T extends TableTypes, P> = P extends `${infer R}.${infer Rest}` ? PathValue<RowOf<T, R>, Rest> | null
  : P extends keyof T['all'] ? T['all'][P] : never
/**
 * A group: the fields by which rows are grouped, and the computed values. The member of
 * `category.name` is `category_name`.
 */
export type Group<T extends TableTypes, G extends string, S> =
  { [P in G as MemberOf<P>]: PathValue<T, P> } & { [K in keyof S]: AggregateValue<T, S[K]> }
type GroupColumns<R> = { readonly [K in keyof R]: Column<R[K]> }
type GroupOrder<G extends string, S> = `${'' | '-'}${MemberOf<G> | (keyof S & string)}`
interface GroupOptions<T extends TableTypes, G extends string, S> {
  /** The values of each group, by name. */
  select?: S
  /** The rows that are grouped. */
  where?: Where<T>
  /** A condition on groups. */
  having?: ((group: GroupColumns<Group<T, G, S>>) => Condition) | Condition | string
  /** Members of a group. Default: the fields of the group. */
  order?: GroupOrder<G, S> | readonly GroupOrder<G, S>[]
  /** The maximum number of groups. Default: 100. */
  limit?: number
  signal?: AbortSignal
}

// History

/** An entry of the history: a write to a row. */
export interface HistoryEntry<T extends TableTypes> {
  readonly id: number
  readonly of_table: T['name']
  readonly of_key: string
  readonly action: 'insert' | 'update' | 'increment' | 'delete'
  /** The fields that have changed, of a blob its number of bytes; null for a delete. */
  readonly fields: Partial<T['row']> | null
  readonly at: string
  readonly version: number | null
  readonly actor: string | null
}
interface HistoryOptions {
  /** Default: the oldest entry first. */
  order?: 'id' | '-id'
  limit?: number
  pageRows?: number
  signal?: AbortSignal
}

// Writes

/** A row whose references may be rows, and that may have rows which refer to it. */
export type Nested<T extends TableTypes, R> = {
  [K in keyof R]: R[K] | (K extends keyof T['references'] & keyof T['relations'] ? NestedRow<TargetOf<T['relations'][K]>> : never)
} & {
  [K in keyof T['referring'] & keyof T['relations']]?:
    readonly NestedRow<TargetOf<T['relations'][K]>, T['referring'][K]>[] | NestedWrites<TargetOf<T['relations'][K]>, T['referring'][K]>
}
/** A row in a row: it is updated if it has its key, and inserted otherwise. `Back` refers to the outer row. */
export type NestedRow<T extends TableTypes, Back = never> =
  Nested<T, Omit<T['insert'], Back & string>> | (Nested<T, Omit<T['patch'], Back & string>> & { [K in T['keyField']]: T['key'] })
/** What happens to the rows that refer to a row. */
export interface NestedWrites<T extends TableTypes, Back> {
  create?: readonly Nested<T, Omit<T['insert'], Back & string>>[]
  update?: readonly (Nested<T, Omit<T['patch'], Back & string>> & { [K in T['keyField']]: T['key'] })[]
  /** Keys of rows that refer to this one. */
  delete?: readonly T['key'][]
  /** The rows that remain; others are deleted. */
  set?: readonly NestedRow<T, Back>[]
}
/** The keys of written rows. */
export type NestedKeys<T extends TableTypes> = { [K in T['keyField']]: T['key'] } & {
  [K in keyof T['references'] & keyof T['relations']]?: NestedKeys<TargetOf<T['relations'][K]>>
} & { [K in keyof T['referring'] & keyof T['relations']]?: NestedKeys<TargetOf<T['relations'][K]>>[] }

export type OnConflict = 'refuse' | 'ignore' | 'replace' | 'update'
export type Effect = 'inserted' | 'replaced' | 'updated' | 'ignored'
interface Expected {
  /** The version that the row has to have; otherwise the error has the status 412. */
  version?: number
}
type Bytes = Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string
interface PartOptions {
  name?: string
  type?: string
  /** The size of a part. Default: 4 MiB. */
  partBytes?: number
  /** An upload that was begun, as `onProgress` has named it. */
  url?: string
  onProgress?: (progress: { readonly url: string, readonly sent: number, readonly bytes: number }) => void
  signal?: AbortSignal
}

/** A table. */
export class Table<T extends TableTypes> {
  private constructor()
  list<F extends Field<T> = never, const E extends Expand<T> = {}>(options?: ListOptions<T, F, E>): Rows<Row<T, F, E>>
  live<F extends Field<T> = never>(options?: LiveOptions<T, F>): Live<Row<T, F>>
  get<F extends Field<T> = never, const E extends Expand<T> = {}>(key: T['key'], options?: RowOptions<T, F, E>): Promise<Row<T, F, E>>
  count(where?: Where<T>): Promise<number>
  /** Groups rows, and computes values of each group. */
  groupBy<const G extends GroupPath<T>, const S extends { readonly [name: string]: Aggregate<T> } = {}>(fields: readonly G[], options?: GroupOptions<T, G, S>): Promise<Group<T, G, S>[]>
  /** Computes values of all rows. */
  aggregate<const S extends { readonly [name: string]: Aggregate<T> }>(select: S, options?: { where?: Where<T>, signal?: AbortSignal }): Promise<Group<T, never, S>>
  /** Lists the writes of a row of an audited table; the row may be deleted. */
  history(key: T['key'], options?: HistoryOptions): Rows<HistoryEntry<T>>
  /** Inserts a row, and returns it as it is stored. */
  insert(row: T['insert'], options?: { onConflict?: OnConflict }): Promise<T['row']>
  /** Inserts rows, all or none. */
  insertMany(rows: readonly T['insert'][], options?: { onConflict?: OnConflict }): Promise<{ keys: T['key'][], effects?: Effect[] }>
  /** Inserts a row with related rows, all or none. */
  insertNested(row: Nested<T, T['insert']>): Promise<NestedKeys<T>>
  /** Writes some fields and related rows, all or none. */
  patchNested(key: T['key'], row: Nested<T, T['patch']>, options?: Expected): Promise<NestedKeys<T>>
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
  /** Writes the bytes of a file field in several requests, and continues after a lost connection. */
  uploadInParts(key: T['key'], field: T['files'], bytes: Bytes, options?: PartOptions): Promise<FileInfo>
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
  /** Signs in with a name and a password. In a browser, `cookie: true` keeps the session in a cookie. `code` is
   * that of an authenticator app: see `Problem.needsCode`. */
  signIn(name: string, password: string, options?: { cookie?: boolean, code?: string }): Promise<Session>
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
