// The metrics of the server as plots of the last 15 minutes, which the page keeps while it is open.

import { Problem, session } from './api.js'
import { describe, fill, h } from './dom.js'
import { headers } from './statistics.js'

const EVERY_MS = 5000
const KEPT_MS = 15 * 60 * 1000
const [WIDTH, HEIGHT] = [300, 100]

// The samples, with the time of each. They outlive the page, not the document.
const samples = []
let reader

// Parses the text format of Prometheus: values by their name with its labels.
const parse = text => new Map(text.split('\n').filter(line => line && !line.startsWith('#')).map(line => {
  const at = line.lastIndexOf(' ')
  return [line.slice(0, at), Number(line.slice(at + 1))]
}))

const read = async () => {
  const response = await fetch('/metrics', { headers: headers() })
  if (!response.ok) throw new Problem(response.status, {})
  samples.push({ at: Date.now(), values: parse(await response.text()) })
  while (samples[0].at < Date.now() - KEPT_MS) samples.shift()
}

const sum = (values, test) => [...values].reduce((all, [name, value]) => test(name) ? all + value : all, 0)
const statuses = first => name => name.startsWith(`marmota_http_requests_total{status="${first}`)
const rate = test => (now, before) => Math.max(0, sum(now.values, test) - sum(before.values, test)) / ((now.at - before.at) / 1000)
const gauge = name => now => now.values.get(name) ?? null

// The end of the class that has this share of the requests between two samples, in milliseconds.
const quantile = share => (now, before) => {
  const classes = [...now.values].filter(([name]) => name.startsWith('marmota_http_request_seconds_bucket')).map(([name, value]) =>
    [Number(name.match(/le="([^"]*)"/)[1].replace('+Inf', 'Infinity')), value - (before.values.get(name) ?? 0)]).sort((a, b) => a[0] - b[0])
  const all = classes.at(-1)?.[1] ?? 0
  if (all <= 0) return null
  const end = classes.find(([, count]) => count >= all * share)[0]
  return 1000 * (end === Infinity ? classes.at(-2)[0] : end)
}

const short = value => value >= 100 ? Math.round(value).toString() : value.toFixed(value >= 10 ? 1 : 2)
const size = bytes => `${(bytes / 1024 ** 2).toFixed(1)} MiB`

// A title, what a value is shown as, and one or two lines with a name and a function of two samples.
const PLOTS = [
  ['Requests per second', short, [['all', rate(name => name.startsWith('marmota_http_requests_total{'))]]],
  ['Errors per second', short, [['5xx', rate(statuses('5'))], ['4xx', rate(statuses('4'))]]],
  ['Latency', value => `${short(value)} ms`, [['median', quantile(0.5)], ['p99', quantile(0.99)]]],
  ['Connections', value => String(Math.round(value)), [['open', gauge('marmota_http_connections')]]],
  ['Memory', size, [['resident', gauge('process_resident_memory_bytes')]]],
]

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

const plot = ([title, shown, lines]) => {
  const pairs = samples.slice(1).map((now, at) => [now, samples[at]])
  const series = lines.map(([name, of]) => [name, pairs.map(([now, before]) => [now.at, of(now, before)]).filter(([, value]) => value !== null)])
  const top = Math.max(...series.flatMap(([, points]) => points.map(([, value]) => value)), 0) || 1
  // The axis begins with the first sample, so that a new plot is not a dot at its end.
  const end = samples.at(-1).at
  const span = Math.max(end - samples[0].at, 60_000)
  const x = at => (WIDTH * (1 - (end - at) / span)).toFixed(1)
  const y = value => (HEIGHT * (1 - value / (top * 1.1))).toFixed(1)
  const last = series.map(([name, points]) => `${series.length > 1 ? `${name}: ` : ''}${points.length ? shown(points.at(-1)[1]) : '–'}`).join(', ')
  const highest = `highest: ${shown(top === 1 && !series.some(([, points]) => points.some(([, value]) => value > 0)) ? 0 : top)}`
  return h('figure', { class: 'plot' }, h('figcaption', {}, title, h('output', {}, last)),
    svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title} since ${new Date(samples[0].at).toLocaleTimeString()}: ${last}, ${highest}` },
      svg('line', { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }),
      ...series.map(([, points], at) => svg('polyline', { class: at ? 'second' : 'first', points: points.flatMap(point => points.length > 1 ? [point] : [point, point]).map(([time, value]) => `${x(time)},${y(value)}`).join(' ') }))),
    h('span', { class: 'muted' }, highest))
}

export const metricsPage = async main => {
  const content = h('div', { class: 'plots' })
  const state = h('span', { class: 'muted' })
  const show = () => {
    if (samples.length > 1) fill(content, PLOTS.map(plot))
    else fill(content, h('p', { class: 'muted' }, 'The plots begin in some seconds.'))
    state.textContent = `Updated ${new Date(samples.at(-1).at).toLocaleTimeString()}`
  }
  try {
    await read()
  } catch (error) {
    const why = error.status === 404 ? ['This server has no metrics. Start it with ', h('code', {}, '--diagnostics'), '.']
      : error.status === 401 && !session.accounts ? ['The metrics of this server need a token: enter it at ', h('a', { href: '#/statistics' }, 'Statistics'), '.'] : describe(error)
    fill(main, h('h1', {}, 'Metrics'), h('p', {}, why))
    return undefined
  }
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Metrics'), state, h('span', { class: 'grow' }), h('a', { href: '#/statistics' }, 'Statistics')), content)
  show()
  // The samples are taken as long as the document is open, so that another page does not tear the plots.
  reader ??= setInterval(() => read().then(() => dispatchEvent(new Event('sampled')), () => {}), EVERY_MS)
  addEventListener('sampled', show)
  return () => removeEventListener('sampled', show)
}
