// Every kind of field, filter, relation, batch, upload, live query and error, by a generated client
// in node. Compiled by `tsc --strict` against the types of the client.
import { Problem, Shop, and, near, or, search, within } from './client/index.js'

declare const process: { env: { [name: string]: string } }

const check = (what: string, value: unknown, wanted: unknown) => {
  const [seen, expected] = [JSON.stringify(value), JSON.stringify(wanted)]
  if (seen !== expected) throw new Error(`${what}: ${seen} instead of ${expected}`)
}
const problem = async (call: Promise<unknown>): Promise<Problem> => {
  try { await call } catch (error) { if (error instanceof Problem) return error; throw error }
  throw new Error('the call should fail')
}

// The code of an authenticator app (RFC 6238).
const totp = async (secret: string) => {
  const bits = [...secret].map(letter => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0')).join('')
  const bytes = Uint8Array.from(bits.match(/.{8}/g)!, byte => parseInt(byte, 2))
  const counter = new DataView(new ArrayBuffer(8))
  counter.setUint32(4, Math.floor(Date.now() / 30_000))
  const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-1' }, false, ['sign'])
  const hash = new DataView(await crypto.subtle.sign('HMAC', key, counter))
  return String((hash.getUint32(hash.getUint8(19) & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}

const url = process.env['SHOP_URL']!
const shop = new Shop({ url })
check('refused', (await problem(shop.product.list().all())).status, 401)
const password = 'correct horse battery'
await shop.setPassword('admin', process.env['SHOP_TOKEN']!, password)
await shop.signIn('admin', password)
check('caller', ((await shop.me()) as { name?: string }).name, 'admin')

// Every kind, from the insert to the list.
const tools = await shop.category.insert({ name: "Ada's \\ tools" })
const inserted = {
  name: 'Hammer', available: true, stock: 7, weight: 1.25, price: 12.5, data: 'AQID', options: { sizes: [1, { unit: 'cm' }] },
  made_on: '2026-02-28', opens_at: '09:30:00', sold_at: '2026-11-26T10:00:00.5Z', code: '0190a5c2-4d5e-7f00-8000-000000000001',
  state: 'on_sale' as const, category: tools.id, position: [0.5, -1, 2], lat: 48.137, lon: 11.575, sku: 'AB12',
}
const hammer = await shop.product.insert(inserted)
const { id, created, updated, version, photo, ...rest } = hammer
const { data, ...shown } = inserted
check('row', Object.fromEntries(Object.entries(rest).sort()), Object.fromEntries(Object.entries({ ...shown, sold_at: rest.sold_at }).sort()))
check('time', new Date(rest.sold_at!).getTime(), Date.UTC(2026, 10, 26, 10, 0, 0, 500))
check('kept', [version, photo, created === updated], [1, null, true])
check('blob', await shop.product.get(id, { fields: ['name', 'data'] }), { name: 'Hammer', data })
const empty = await shop.product.insert({ name: 'Nothing', available: false, price: 0 })
check('defaults', [empty.stock, empty.state, empty.weight, empty.options], [0, 'draft', null, null])
await shop.tag.insert({ name: 'a/b ?' })
check('text key', await shop.tag.get('a/b ?'), { name: 'a/b ?' })
const note = await shop.note.insert({ text: 'solid', product: id, tag: 'a/b ?' })
check('uuid key', (await shop.note.get(note.id)).text, 'solid')

// Every condition.
const names = async (where: Parameters<typeof shop.product.list>[0] extends infer O ? NonNullable<O> extends { where?: infer W } ? W : never : never) =>
  (await shop.product.list({ where, order: 'id' }).all()).map(product => product.name).join()
for (const [what, text, wanted] of [
  ['eq', await names(p => p.name.eq('Hammer')), 'Hammer'],
  ['ne', await names(p => p.state.ne('draft')), 'Hammer'],
  ['null', await names(p => p.weight.eq(null)), 'Nothing'],
  ['lt', await names(p => p.price.lt(1)), 'Nothing'],
  ['le', await names(p => p.stock.le(0)), 'Nothing'],
  ['gt', await names(p => p.weight.gt(1)), 'Hammer'],
  ['ge', await names(p => p.made_on.ge('2026-02-28')), 'Hammer'],
  ['in', await names(p => p.state.in(['on_sale', 'gone'])), 'Hammer'],
  ['not in', await names(p => p.id.notIn([id])), 'Nothing'],
  ['boolean', await names(p => p.available.eq(false)), 'Nothing'],
  ['contains', await names(p => p.name.contains('AMM')), 'Hammer'],
  ['starts', await names(p => p.name.startsWith('noth')), 'Nothing'],
  ['words', await names(p => p.name.matches('hammer')), 'Hammer'],
  ['search', await names(search('nothing')), 'Nothing'],
  ['near', await names(p => near(p.lat, p.lon, 48.1, 11.5, 10_000)), 'Hammer'],
  ['far', await names(p => near(p.lat, p.lon, 48.1, 11.5, 1_000)), ''],
  ['within', await names(p => within(p.lat, p.lon, 48, 170, 49, 12.5)), 'Hammer'],
  ['related point', await names(p => p.note.any(n => near(n.product.lat, n.product.lon, 48.137, 11.575, 0))), 'Hammer'],
  ['and', await names(p => and(p.stock.gt(1), p.available.eq(true))), 'Hammer'],
  ['or', await names(p => or(p.stock.gt(1), p.price.eq(0))), 'Hammer,Nothing'],
  ['not', await names(p => p.stock.gt(1).and(p.id.eq(id)).not()), 'Nothing'],
  ['text', await names("name = 'Hammer'"), 'Hammer'],
  ['json', await names(p => p.options.at('sizes', 1, 'unit').eq('cm')), 'Hammer'],
  ['exists', await names(p => p.options.at('sizes').exists()), 'Hammer'],
  ['file', await names(p => p.photo.eq(null)), 'Hammer,Nothing'],
  ['uuid', await names(p => p.code.eq(inserted.code)), 'Hammer'],
  ['timestamp', await names(p => p.sold_at.lt('2027-01-01T00:00:00Z')), 'Hammer'],
  ['time', await names(p => p.opens_at.eq('09:30:00')), 'Hammer'],
  ['to one', await names(p => p.category.name.eq("Ada's \\ tools")), 'Hammer'],
  ['any', await names(p => p.note.any(n => n.tag.eq('a/b ?'))), 'Hammer'],
  ['none', await names(p => p.note.none()), 'Nothing'],
  ['count', await names(p => p.note.count(n => n.text.eq('solid')).ge(1)), 'Hammer'],
] as const) check(what, text, wanted)

// Relations in answers, from both sides.
await shop.category.insert({ name: 'Small', parent: tools.id })
const expanded = await shop.category.list({
  where: c => c.id.eq(tools.id),
  expand: { product: { fields: ['name'], order: '-price', limit: 1, expand: { note: true } }, category: true, parent: true },
}).first()
check('expand', expanded!.expand.product[0]!.expand.note[0]!.text, 'solid')
check('expand', [expanded!.expand.product[0]!.name, expanded!.expand.category[0]!.name, expanded!.expand.parent], ['Hammer', 'Small', null])
const withCategory = await shop.product.get(id, { expand: { category: { fields: ['name'] } } })
check('expand', withCategory.expand.category?.name, "Ada's \\ tools")
await shop.link.insert({ from_category: tools.id, to_category: tools.id })
const linked = await shop.category.get(tools.id, { expand: { 'link:from_category': true } })
check('relation with a field', linked.expand['link:from_category'].length, 1)

// Pages.
const { keys } = await shop.category.insertMany(Array.from({ length: 250 }, (_, n) => ({ name: `c${String(n).padStart(3, '0')}` })))
check('keys', keys.length, 250)
const seen: string[] = []
for await (const { name } of shop.category.list({ where: c => c.name.startsWith('c'), order: '-name', fields: ['name'], pageRows: 40 })) seen.push(name)
check('rows', [seen.length, seen[0], seen[249]], [250, 'c249', 'c000'])
check('limit', (await shop.category.list({ limit: 130 }).all()).length, 130)
check('count', await shop.category.count(c => c.name.startsWith('c')), 250)
check('page', (await shop.category.list({ limit: 1, count: true }).page()).count, 252)

// Writes.
const patched = await shop.product.patch(id, { stock: 8, options: null }, { version: 1 })
check('patch', [patched.stock, patched.options, patched.version], [8, null, 2])
check('increment', await shop.product.increment(id, 'stock', 2), 10)
const replaced = await shop.product.update(empty.id, { name: 'Something', available: true, price: 1 })
check('update', replaced.name, 'Something')
check('delete where', await shop.category.deleteWhere(c => c.name.startsWith('c')), 250)

// Groups.
const groups = await shop.product.groupBy(['state', 'category'], {
  select: { rows: 'count', dearest: 'max(price)', mean: 'avg(stock)' }, where: p => p.id.le(empty.id), having: g => g.rows.ge(1), order: ['-dearest'],
})
check('groups', groups, [{ state: 'on_sale', category: tools.id, rows: 1, dearest: 12.5, mean: 10 }, { state: 'draft', category: null, rows: 1, dearest: 1, mean: 0 }])
const dearest: number | null = groups[0]!.dearest
check('having', await shop.product.groupBy(['state'], { having: g => g.state.eq('draft') }), [{ state: 'draft' }])
const byName = await shop.product.groupBy(['category.name', 'state'], {
  select: { rows: 'count' }, where: p => p.id.le(empty.id), having: g => g.category_name.eq("Ada's \\ tools"), order: ['-category_name', 'rows'],
})
const categoryName: string | null = byName[0]!.category_name
check('related groups', [byName, categoryName], [[{ category_name: "Ada's \\ tools", state: 'on_sale', rows: 1 }], "Ada's \\ tools"])
const noted = await shop.note.groupBy(['product.category.name', 'product.made_on'], { select: { notes: 'count' } })
check('groups over two references', noted, [{ product_category_name: "Ada's \\ tools", product_made_on: '2026-02-28', notes: 1 }])
const all = await shop.product.aggregate({ first: 'min(name)', weights: 'sum(weight)', weighed: 'count(weight)' })
check('aggregate', [all.first, all.weights, all.weighed, dearest], ['Hammer', 1.25, 1, 12.5])

// History, also of a deleted row.
const gone = await shop.product.insert({ name: 'Gone', available: true, price: 3 })
await shop.product.delete(gone.id)
const entries = await shop.product.history(gone.id).all()
check('history', entries.map(entry => [entry.action, entry.actor, entry.fields?.price ?? null]), [['insert', 'admin', 3], ['delete', 'admin', null]])
const newest = await shop.product.history(id, { order: '-id' }).first()
check('newest entry', [newest?.action, newest?.fields?.stock], ['increment', 10])

// A row with related rows.
const kit = await shop.product.insertNested({
  name: 'Kit', available: true, price: 5, category: { name: 'Kits', parent: tools.id },
  note: [{ text: 'a' }, { text: 'b', tag: { name: 'new tag' } }],
})
const [a, b] = kit.note!
check('nested', [(await shop.product.get(kit.id)).category, (await shop.note.get(b!.id)).tag], [kit.category!.id, 'new tag'])
await shop.product.patchNested(kit.id, {
  stock: 1, category: { id: kit.category!.id, name: 'Sets' },
  note: { create: [{ text: 'c' }], update: [{ id: b!.id, text: 'bb' }], delete: [a!.id] },
})
const texts = async () => (await shop.note.list({ where: n => n.product.eq(kit.id) }).all()).map(one => one.text).sort().join()
check('nested', [await texts(), (await shop.category.get(kit.category!.id)).name], ['bb,c', 'Sets'])
await shop.product.patchNested(kit.id, { note: { set: [{ id: b!.id }] } })
check('set', await texts(), 'bb')
await shop.product.delete(kit.id)
await shop.tag.delete('new tag')

// Errors.
const stale = await problem(shop.product.patch(id, { stock: 1 }, { version: 1 }))
check('stale', stale.status, 412)
const invalid = await problem(shop.product.insert({ name: '', available: true, price: 1, sku: 'x' }))
check('invalid', [invalid.status, invalid.violations.map(one => [one.field, one.rule]).sort()], [422, [['name', 'not_empty'], ['sku', 'pattern']]])
check('conflict', (await problem(shop.category.insert({ name: 'Small' }))).status, 409)
check('missing', (await problem(shop.product.get(99))).status, 404)

// Batches with handles.
const batch = shop.batch()
const garden = batch.category.insert({ name: 'Garden' })
const rake = batch.product.insert({ name: 'Rake', available: true, price: 8, category: garden })
batch.note.insert({ text: 'for leaves', product: rake })
batch.product.increment(rake, 'stock', 3)
await batch.run()
check('batch', (await shop.product.get(rake.key)).stock, 3)
check('batch', (await shop.product.get(rake.key)).category, garden.key)
const each = shop.batch()
const fails = each.category.insert({ name: 'Garden' })
const works = each.product.patch(rake.key, { stock: 4 })
await each.run({ mode: 'each' })
check('each', [fails.error?.status, works.error], [409, undefined])
const whole = shop.batch()
whole.category.insert({ name: 'Undone' })
whole.category.insert({ name: 'Garden' })
check('all', (await problem(whole.run())).status, 409)
check('all', await shop.category.count(c => c.name.eq('Undone')), 0)

// Files and blobs.
const file = await shop.product.upload(id, 'photo', new Blob(['marmots'], { type: 'text/plain' }), { name: 'Grüße (1).txt' })
check('file', [file.name, file.type, file.bytes], ['Grüße (1).txt', 'text/plain', 7])
check('file', await (await shop.product.download(id, 'photo')).text(), 'marmots')
const signed = await shop.product.signedUrl(id, 'photo', { expiresIn: 60 })
check('signed', await (await fetch(new URL(signed.url, url))).text(), 'marmots')
check('file in row', (await shop.product.get(id)).photo?.sha256, file.sha256)
await shop.product.removeFile(id, 'photo')
check('removed', (await shop.product.get(id)).photo, null)
const long = 'marmot '.repeat(30_000)
let losses = 2
const lossy = new Shop({
  url, token: shop.token,
  fetch: async (target, options) => {
    const response = await fetch(target, options)
    // The answer to a part in the middle is lost, and that to the last part.
    if (options?.method === 'PATCH' && losses === (Number(new Headers(options.headers).get('Upload-Offset')) > 100_000 ? 1 : 2)) {
      losses -= 1
      throw new TypeError('the connection was lost')
    }
    return response
  },
})
const sent: number[] = []
let uploadUrl = ''
const resumed = await lossy.product.uploadInParts(id, 'photo', new Blob([long], { type: 'text/plain' }), {
  name: 'Lied (2).txt', partBytes: 70_000, onProgress: progress => { sent.push(progress.sent); uploadUrl = progress.url },
})
check('parts', [resumed.name, resumed.type, resumed.bytes, losses], ['Lied (2).txt', 'text/plain', 210_000, 0])
check('parts', [sent, uploadUrl.includes('/photo/uploads/')], [[0, 70_000, 140_000], true])
check('parts', await (await shop.product.download(id, 'photo')).text() === long, true)
await shop.product.removeFile(id, 'photo')
await shop.product.upload(id, 'data', new Uint8Array([0, 255]))
check('blob', [...new Uint8Array(await (await shop.product.download(id, 'data')).arrayBuffer())], [0, 255])

// Live queries: as an async iterator, and as a store.
const live = shop.tag.live({ order: '-name', limit: 2, count: true })
const states: string[] = []
let inserts = ['m', 'z', 'n']
for await (const page of live) {
  states.push(`${page.rows.map(tag => tag.name).join()} of ${page.count}`)
  const next = inserts.shift()
  if (next === undefined) break
  await shop.tag.insert({ name: next })
}
check('live', states, ['a/b ? of 1', 'm,a/b ? of 2', 'z,m of 3', 'z,n of 4'])
const store = shop.tag.live({ where: t => t.name.ge('y') })
const first = store.getSnapshot()
check('store', [first.ready, first.rows.length], [false, 0])
await new Promise<void>(resolve => {
  const end = store.subscribe(page => { if (page.ready) { queueMicrotask(() => end()); resolve() } })
})
check('store', [store.getSnapshot() === store.getSnapshot(), store.getSnapshot().rows], [true, [{ name: 'z' }]])
const refused = shop.tag.live({ where: "unknown = 'x'" })
check('live error', (await problem((async () => { for await (const _ of refused) break })())).status, 400)

// A failure of the network: the insert is sent again, and executed once.
let failures = 1
const flaky = new Shop({
  url, token: shop.token,
  fetch: async (...request) => {
    const response = await fetch(...request)
    if (failures > 0) { failures -= 1; throw new TypeError('the connection was lost') }
    return response
  },
})
await flaky.tag.insert({ name: 'once' })
check('once', [failures, await shop.tag.count(t => t.name.eq('once'))], [0, 1])

// A second factor.
const setup = await shop.json('POST', 'auth/totp', { json: { password } }) as { secret: string }
const confirmed = await shop.json('POST', 'auth/totp/confirm', { json: { code: await totp(setup.secret) } }) as { recovery_codes: string[] }
await shop.signOut()
const second = await problem(shop.signIn('admin', password))
check('second factor', [second.status, second.needsCode, stale.needsCode], [401, true, false])
await shop.signIn('admin', password, { code: confirmed.recovery_codes[0]! })

// A row that was read can be written back.
check('back', (await shop.product.update(id, await shop.product.get(id))).name, 'Hammer')
await shop.note.delete(note.id)
await shop.signOut()
check('signed out', (await problem(shop.product.list().first())).status, 401)
console.log('done')
