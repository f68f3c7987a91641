// Applies the raw events of a live list by a library for JSON Patch (rfc6902), and compares the result
// with the list that GET returns.
const { applyPatch } = await import(process.env.RFC6902)
const api = `${process.env.SHOP_URL}/api`
const headers = { 'Content-Type': 'application/json' }
const send = async (method, path, body) => {
  const answer = await fetch(`${api}/${path}`, { method, headers, body: body && JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`)
  return answer.status === 204 ? null : answer.json()
}
const password = 'correct horse battery'
await send('POST', 'auth/set-password', { name: 'admin', token: process.env.SHOP_TOKEN, password })
const { token } = await send('POST', 'auth/login', { name: 'admin', password })
headers.Authorization = `Bearer ${token}`

const list = 'product?order=-stock,name&limit=4&count=true&fields=id,name,stock,options,weight'
const events = await fetch(`${api}/${list}`, { headers: { ...headers, Accept: 'text/event-stream' }, signal: AbortSignal.timeout(60_000) })
let page = null
let patches = 0
let text = ''
const reader = events.body.pipeThrough(new TextDecoderStream()).getReader()
const next = async () => {
  while (!text.includes('\n\n')) text += (await reader.read()).value
  const [event] = text.split('\n\n', 1)
  text = text.slice(event.length + 2)
  const field = name => event.split('\n').find(line => line.startsWith(`${name}: `))?.slice(name.length + 2)
  if (!field('data')) return
  const data = JSON.parse(field('data'))
  if (field('event') === 'snapshot') page = data
  else {
    const failed = applyPatch(page, data).filter(Boolean)
    if (failed.length) throw new Error(`${field('data')}: ${failed}`)
    patches += 1
  }
}
const canonical = value => JSON.stringify(value, (_, part) =>
  part && typeof part === 'object' && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort()) : part)

const keys = []
for (let step = 0; step < 60; step += 1) {
  const key = keys[(step * 7) % (keys.length || 1)]
  if (step < 6 || step % 9 === 0) keys.push((await send('POST', 'product', { name: `p${step}`, available: true, price: 1, stock: (step * 5) % 11 })).id)
  else if (step % 13 === 0) await send('DELETE', `product/${keys.splice(keys.indexOf(key), 1)}`)
  else if (step % 4 === 0) await send('PATCH', `product/${key}`, { options: { 'a/b': [step, { '~': null }], list: Array(step % 3).fill(step) }, weight: step / 8 })
  else await send('PATCH', `product/${key}`, { stock: (step * 17) % 23 })
  const wanted = canonical(await send('GET', list))
  while (canonical(page) !== wanted) await next()
}
if (patches < 30) throw new Error(`${patches} patches`)
console.log('done')
process.exit(0)
