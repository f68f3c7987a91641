// Jobs: queues with their counts, schedules, workers, and the jobs with their input, progress and error.

import { get, send } from './api.js'
import { button, confirmed, fail, fill, h, labelled, list, notify, openDialog, time } from './dom.js'

const STATES = ['', 'scheduled', 'pending', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled']
const COUNTS = ['scheduled', 'pending', 'running', 'failed', 'succeeded', 'cancelled']
const EVERY_MS = 3000

const stateOf = ({ state }) => h('span', { class: `tag ${{ failed: 'bad', succeeded: 'good' }[state] ?? ''}` }, state)
const progressOf = ({ progress, progress_text: text }) => progress !== null && h('span', {}, ` ${progress} % ${text ?? ''}`)
const age = ms => ms === null ? '' : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`

export const jobsPage = async (main, parts, query, go) => {
  const [queue, state] = [query.get('queue') ?? '', query.get('state') ?? '']
  const of = changed => `#/jobs?${new URLSearchParams(Object.entries({ queue, state, ...changed }).filter(([, value]) => value !== ''))}`
  const read = () => Promise.all([get('/-/jobs/overview'), get(`/-/jobs?${new URLSearchParams({ ...queue && { queue }, ...state && { state } })}`)])
  const content = h('div', {})
  let [timer, shown] = [null, '']
  const act = async (job, action, done) => {
    try {
      await send('POST', `/-/jobs/${job.id}/${action}`)
      notify(done)
    } catch (error) { fail(error) }
    await refresh()
  }
  const cancel = async job => {
    if (job.state !== 'running' || await confirmed(`Cancel the running job ${job.function}?`, 'Cancel job')) await act(job, 'cancel', 'Cancelled')
  }
  const show = job => {
    const dialog = openDialog(`Job ${job.function}`,
      h('dl', {}, [['Id', job.id], ['State', [stateOf(job), progressOf(job)]], ['Queue', job.queue], ['Attempts', `${job.attempts} of ${job.attempts_max}`],
        ['Enqueued', time(job.enqueued_at)], ['Due', time(job.run_at)], ['Started', time(job.started_at)], ['Finished', time(job.finished_at)]]
        .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
      job.error && [h('h3', {}, 'Error'), h('p', { class: 'error' }, job.error)],
      h('h3', {}, 'Input'), h('pre', { tabindex: 0 }, JSON.stringify(job.input, null, 2)),
      h('div', { class: 'buttons' }, button('Close', () => dialog.close(), { kind: 'primary' })))
  }
  const again = job => {
    const words = job.state === 'scheduled' ? 'Run now' : 'Retry'
    return button(words, () => act(job, 'retry', 'The job runs again'), { 'aria-label': `${words}: job ${job.id}` })
  }
  const actions = job => h('div', { class: 'buttons' },
    button('Show', () => show(job), { 'aria-label': `Show the job ${job.id}` }),
    ['scheduled', 'succeeded', 'failed', 'cancelled'].includes(job.state) && again(job),
    ['scheduled', 'pending', 'running'].includes(job.state) && button('Cancel', () => cancel(job), { kind: 'danger', 'aria-label': `Cancel the job ${job.id}` }))
  const view = ([{ queues, schedules, workers }, { jobs }]) => [
    h('section', {}, h('h2', {}, 'Queues'), list('Queues', ['Queue', ...COUNTS.map(name => [name, 'number']), ['Oldest', 'number']],
      queues.map(one => [h('a', { href: of({ queue: one.queue }) }, one.queue), ...COUNTS.map(name => one[name] > 0 ? h('a', { href: of({ queue: one.queue, state: name }), 'aria-label': `${one[name]} ${name} jobs of ${one.queue}` }, String(one[name])) : '0'), age(one.oldest_pending_ms)]), 'No jobs yet.')),
    h('section', {}, h('h2', {}, 'Jobs'), list('Jobs', ['Function', 'State', 'Attempts', 'Time', ['Error', 'long'], h('span', { class: 'hidden' }, 'Actions')],
      jobs.map(job => [[job.function, h('p', { class: 'hint' }, job.queue)], [stateOf(job), progressOf(job)], `${job.attempts} of ${job.attempts_max}`, time(job.finished_at ?? job.started_at ?? job.run_at), (job.error ?? '').slice(0, 200), actions(job)]), 'No such jobs.')),
    h('section', {}, h('h2', {}, 'Schedules'), list('Schedules', ['Name', 'Pattern', 'Next', 'Last'], schedules.map(one => [one.name, h('code', {}, one.pattern), time(one.next_at), time(one.last_at)]), 'None.')),
    h('section', {}, h('h2', {}, 'Workers'), list('Workers', ['Name', 'Started', 'Lease until'], workers.map(one => [one.name, time(one.started_at), time(one.until)]), 'No worker is running.')),
  ]
  const refresh = async () => {
    clearTimeout(timer)
    // The controls under the focus are not replaced while nothing has changed.
    if (!document.hidden) {
      try {
        const now = await read()
        const text = JSON.stringify(now)
        if (text !== shown && content.isConnected) fill(content, view(now))
        shown = text
      } catch (error) { fail(error) }
    }
    if (content.isConnected) timer = setTimeout(refresh, EVERY_MS)
  }
  const choose = labelled('State', h('select', { onchange: event => go(of({ state: event.target.value })) }, STATES.map(option => h('option', { value: option, selected: option === state }, option || 'all'))))
  const first = await read()
  shown = JSON.stringify(first)
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Jobs'), queue && [h('span', { class: 'tag' }, `queue ${queue}`), h('a', { href: of({ queue: '' }) }, 'All queues')]), choose, content)
  fill(content, view(first))
  timer = setTimeout(refresh, EVERY_MS)
  return () => clearTimeout(timer)
}
