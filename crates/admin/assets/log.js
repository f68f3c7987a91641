// The last lines of the access log and of the log, live, and slow requests and operations.

import { get, urlOf } from './api.js'
import { button, fill, h, labelled, list, time } from './dom.js'

const LINES_MAX = 500

const ms = seconds => seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(2)} s`
const textOf = line => line.kind === 'log' ? line.text
  : `${new Date(line.request.time * 1000).toISOString()} ${line.request.status} ${line.request.method} ${line.request.target} ${ms(line.request.duration_us / 1e6)} ${line.request.bytes} B ${line.request.peer}`

export const logPage = async main => {
  const found = await get('/-/log')
  const lines = found.lines.slice(-LINES_MAX)
  const state = h('span', { class: 'live' }, 'live')
  const shown = h('pre', { class: 'log', tabindex: 0, role: 'log', 'aria-label': 'Lines of the log', 'aria-live': 'off' })
  const filter = labelled('Only lines with', h('input', { class: 'mono', autocomplete: 'off', spellcheck: 'false', oninput: () => show() }))
  const kind = labelled('Lines of', h('select', { onchange: () => show() }, [['', 'both logs'], ['access', 'requests'], ['log', 'the log']].map(([value, text]) => h('option', { value }, text))))
  let isPaused = false
  const pause = button('Pause', () => {
    isPaused = !isPaused
    pause.textContent = isPaused ? 'Continue' : 'Pause'
    state.hidden = isPaused
    show()
  })
  const show = () => {
    if (isPaused) return
    const word = filter.target.value.toLowerCase()
    const isAtEnd = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 8
    shown.textContent = lines.filter(line => !kind.target.value || line.kind === kind.target.value).map(textOf).filter(text => text.toLowerCase().includes(word)).join('\n')
    if (isAtEnd) shown.scrollTop = shown.scrollHeight
  }
  const slow = h('section', {})
  const showSlow = ({ slow_requests: requests, slow_operations: operations, slow_from_ms: from }) => fill(slow,
    h('h2', {}, 'Slow requests'),
    list('Slow requests', ['Time', 'Request', ['Status', 'number'], ['Duration', 'number']], [...requests].reverse().map(one => [time(one.at), `${one.method} ${one.path}`, String(one.status), ms(one.seconds)]),
      from === null ? 'The option --slow-query-ms sets the limit.' : `None took ${from} ms or more.`),
    h('h2', {}, 'Slow operations and statements'),
    list('Slow operations', ['Time', 'Operation', ['Rows', 'number'], 'User', ['Duration', 'number']], [...operations].reverse().map(one => [time(one.at), h('code', {}, one.what), String(one.rows), one.who ?? '', ms(one.seconds)]),
      from === null ? 'The option --slow-query-ms sets the limit.' : `None took ${from} ms or more.`))
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Log'), state, h('span', { class: 'grow' }), button('Refresh slow calls', async () => showSlow(await get('/-/log'))), pause),
    h('div', { class: 'row' }, filter, kind), shown, slow)
  show()
  shown.scrollTop = shown.scrollHeight
  showSlow(found)
  const stream = new EventSource(urlOf('/-/log/live'))
  let last = found.lines.at(-1)?.number ?? 0
  stream.addEventListener('line', event => {
    const line = JSON.parse(event.data)
    if (line.number <= last) return
    last = line.number
    lines.push(line)
    if (lines.length > LINES_MAX) lines.shift()
    show()
  })
  stream.addEventListener('open', () => { state.textContent = 'live' })
  stream.addEventListener('error', () => { state.textContent = 'connecting' })
  return () => stream.close()
}
