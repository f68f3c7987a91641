// What the server does: operations, slow operations, counters, and the filter of the log.

import { get, send, session } from './api.js'
import { button, describe, fill, form, h, labelled, list, time } from './dom.js'

const EVERY_MS = 5000

// The token of servers without accounts; it is forgotten with the page.
let token = ''
export const headers = () => token ? { Authorization: `Bearer ${token}` } : {}

const duration = seconds => seconds < 0.001 ? `${Math.round(seconds * 1e6)} µs` : seconds < 1 ? `${(seconds * 1e3).toFixed(1)} ms` : `${seconds.toFixed(2)} s`

// The upper end of the class that has a share of all operations, in seconds.
const quantile = ({ classes, count }, ends, share) => {
  let seen = 0
  const at = classes.findIndex(number => (seen += number) >= count * share)
  return at < ends.length ? `≤ ${duration(ends[at] / 1e6)}` : `> ${duration(ends.at(-1) / 1e6)}`
}

const show = value => value === null || typeof value !== 'object' ? String(value) : JSON.stringify(value)
const titled = name => name.replaceAll('_', ' ')

const sections = (now, earlier) => {
  const verbs = [...now.verbs ?? []].sort((a, b) => b.seconds - a.seconds)
  const seconds = earlier ? (now.at - earlier.at) / 1000 : 0
  const rate = verb => {
    const before = earlier?.verbs?.find(other => other.table === verb.table && other.verb === verb.verb)
    return seconds ? ((verb.count - (before?.count ?? 0)) / seconds).toFixed(1) : '–'
  }
  const counters = (name, values) => values && Object.keys(values).length > 0 && h('section', {}, h('h2', {}, titled(name)),
    h('dl', { class: 'counters' }, Object.entries(values).map(([key, value]) => h('div', {}, h('dt', {}, titled(key)), h('dd', {}, show(value))))))
  const known = ['verbs', 'slow', 'class_ends_us', 'sessions', 'at']
  return [
    now.verbs && h('section', {}, h('h2', {}, 'Operations'),
      list('Operations', ['Table', 'Operation', ['Count', 'number'], ['Per second', 'number'], ['Errors', 'number'], ['Rows', 'number'], ['Mean', 'number'], ['Median', 'number'], ['p99', 'number']],
        verbs.map(verb => [verb.table || h('span', { class: 'muted' }, 'internal'), verb.verb, show(verb.count), rate(verb), show(verb.errors), show(verb.rows),
          duration(verb.count ? verb.seconds / verb.count : 0), quantile(verb, now.class_ends_us, 0.5), quantile(verb, now.class_ends_us, 0.99)]))),
    now.slow && h('section', {}, h('h2', {}, 'Slow operations'), slow(now.slow)),
    ...Object.entries(now).filter(([name, value]) => !known.includes(name) && value && typeof value === 'object').map(([name, value]) => counters(name, value)),
  ]
}

const slow = operations => {
  const names = [...new Set(operations.flatMap(Object.keys))]
  const cell = (name, value) => value === undefined ? '' : name.startsWith('seconds') || name === 'took' ? duration(Number(value)) : name === 'at' ? time(value) : show(value)
  return list('Slow operations', names.map(titled), [...operations].reverse().map(one => names.map(name => cell(name, one[name]))),
    'None. The option --slow-query-ms sets the limit.')
}

export const statisticsPage = async main => {
  let [last, timer, isPaused] = [null, null, false]
  const content = h('div', {})
  const state = h('span', { class: 'muted' })
  const pause = button('Pause', () => {
    isPaused = !isPaused
    pause.textContent = isPaused ? 'Continue' : 'Pause'
    if (!isPaused) refresh()
    else clearTimeout(timer)
  })
  const askToken = message => {
    const field = labelled('Token', h('input', { type: 'password', autocomplete: 'off' }), { hint: 'The server has printed it at its start, or it is set in MARMOTA_DIAGNOSTICS_TOKEN.' })
    const use = async () => { token = field.target.value.trim(); await statisticsPage(main) }
    fill(main, h('h1', {}, 'Statistics'), h('p', {}, message), form([field], { submit: 'Show statistics', send: use, fields: {} }))
  }
  const read = async () => ({ ...await get('/-/statistics', headers()), at: Date.now() })
  const refresh = async () => {
    clearTimeout(timer)
    if (!document.hidden) {
      try {
        const now = await read()
        fill(content, sections(now, last))
        state.textContent = `Updated ${new Date(now.at).toLocaleTimeString()}`
        last = now
      } catch (error) { state.textContent = describe(error) }
    }
    if (!isPaused && content.isConnected) timer = setTimeout(refresh, EVERY_MS)
  }
  try {
    last = await read()
  } catch (error) {
    if (error.status === 404) {
      fill(main, h('h1', {}, 'Statistics'), h('p', {}, 'This server has no statistics. Start it with ', h('code', {}, '--diagnostics'), '.'))
    } else if (error.status === 401 && !session.accounts) {
      askToken(token ? 'This is not the token of the diagnostics.' : 'The diagnostics of this server need a token.')
    } else {
      fill(main, h('h1', {}, 'Statistics'), h('p', {}, describe(error)))
    }
    return undefined
  }
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Statistics'), state, h('span', { class: 'grow' }), pause), content)
  fill(content, sections(last, null))
  const levels = await get('/-/levels', headers()).catch(() => null)
  if (levels) main.append(logForm(levels.filter))
  timer = setTimeout(refresh, EVERY_MS)
  return () => clearTimeout(timer)
}

const logForm = filter => {
  const field = labelled('Filter of the log', h('input', { class: 'mono', value: filter, spellcheck: 'false', autocomplete: 'off' }), { hint: 'A level, and levels of targets: info,marmota::slow=off' })
  const set = async () => { field.target.value = (await send('PUT', '/-/levels', { filter: field.target.value }, headers())).filter }
  return h('section', {}, h('h2', {}, 'Log'), form([field], { submit: 'Set', send: set, fields: {} }))
}
