// Backups in a folder: list, make, verify, download; the state of the replication.

import { get, send, session, urlOf } from './api.js'
import { button, fail, fill, form, h, labelled, list, notify, openDialog, time } from './dom.js'

const size = bytes => bytes < 1024 ? `${bytes} B` : bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : bytes < 1024 ** 3 ? `${(bytes / 1024 ** 2).toFixed(1)} MiB` : `${(bytes / 1024 ** 3).toFixed(2)} GiB`

// Patterns with a name; the text of the last one is written by hand.
const TIMES = [['', 'By request only'], ['0 * * * *', 'Each hour'], ['30 3 * * *', 'Each night at 3:30 UTC'], ['30 3 * * 0', 'Each Sunday at 3:30 UTC'], ['*', 'A pattern']]

// Shows the form of the schedule.
const editSchedule = (found, again) => {
  const current = (found.schedule ?? '').replace(/ UTC$/, '')
  const isNamed = TIMES.some(([value]) => value === current)
  const pattern = labelled('Pattern', h('input', { value: isNamed ? '' : current, autocomplete: 'off', spellcheck: 'false' }), { hint: 'Minute, hour, day of month, month, day of week, in UTC, such as 30 3 * * 1-5' })
  const show = () => { pattern.hidden = times.target.value !== '*' }
  const times = labelled('Backups', h('select', { onchange: () => show() }, TIMES.map(([value, text]) =>
    h('option', { value, selected: value === (isNamed ? current : '*') }, text))))
  const keep = labelled('Backups to keep', h('input', { type: 'number', min: 1, value: found.keep ?? '' }), { hint: 'Older ones are removed after each new one; empty to keep all' })
  show()
  const save = async () => {
    const schedule = times.target.value === '*' ? pattern.target.value.trim() : times.target.value
    await send('PUT', '/-/backups/schedule', { schedule: schedule || null, keep: keep.target.value ? Number(keep.target.value) : null })
    dialog.close()
    notify('Saved')
    await again()
  }
  const dialog = openDialog('Schedule of backups', form([times, pattern, keep], { submit: 'Save', send: save, extra: [button('Cancel', () => dialog.close())] }))
}

const replication = state => [
  h('h2', {}, 'Replication'),
  state.error ? h('p', { class: 'error', role: 'alert' }, state.error) : h('p', {}, h('span', { class: 'tag good' }, 'no error')),
  h('dl', { class: 'counters' }, [['Role', state.role], ['Target', state.target], ['Lag', `${state.lag_ms} ms`], ['Last commit', time(state.time)], ['Epoch', state.epoch], ['Segment', state.segment], ['Segments', state.segments], ['Bytes', size(Number(state.bytes))]]
    .map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value)))),
]

export const backupsPage = async main => {
  const again = () => backupsPage(main)
  const working = async (control, text, work) => {
    const before = control.textContent
    control.disabled = true
    control.textContent = text
    try { await work() } catch (error) { fail(error) }
    control.disabled = false
    control.textContent = before
  }
  const ifThere = error => { if (error.status === 404) return null; throw error }
  const [found, state] = await Promise.all([session.has.backups ? get('/-/backups').catch(ifThere) : null, session.has.replication ? get('/-/replication').catch(ifThere) : null])
  const make = button('Make a backup', () => working(make, 'In progress …', async () => {
    const made = await send('POST', '/-/backups')
    notify(`${made.name}: ${size(Number(made.bytes))}, ${made.rows} rows`)
    await again()
  }), { kind: 'primary' })
  const verify = name => {
    const control = button('Verify', () => working(control, 'Verifying …', async () => {
      const { is_intact: isIntact, problem } = await send('POST', `/-/backups/${encodeURIComponent(name)}/verify`)
      notify(isIntact ? `${name} is intact` : problem, isIntact ? 'ok' : 'bad')
    }), { 'aria-label': `Verify ${name}` })
    return control
  }
  const link = (name, part, text) => h('a', { class: 'button', href: urlOf(`/-/backups/${encodeURIComponent(name)}/${part}`), download: '', 'aria-label': `${text} of ${name}` }, text)
  const row = one => one.error ? [one.name, '', '', h('p', { class: 'error' }, one.error), ''] : [
    one.name, time(one.taken), size(Number(one.bytes)), `${one.rows} rows, ${one.tables} tables${one.encrypted ? ', encrypted' : ''}`,
    h('div', { class: 'buttons' }, verify(one.name), one.databases === 1 && link(one.name, 'file', 'File'), link(one.name, 'manifest', 'Manifest'))]
  const newest = found?.backups.find(one => !one.error)
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Backups and replication'), h('span', { class: 'grow' }),
    found?.is_changeable && button('Schedule', () => editSchedule(found, again)), found && make),
    found && [
      h('p', { class: 'muted' }, `Folder ${found.folder}. `, found.schedule ? ['By schedule: ', h('code', {}, found.schedule), ', next ', time(found.next_at), '. '] : 'No schedule. ',
        found.keep ? `The newest ${found.keep} are kept.` : 'All are kept.'),
      list('Backups', ['Name', 'Time', ['Size', 'number'], 'Content', h('span', { class: 'hidden' }, 'Actions')], found.backups.map(row), 'No backups yet.'),
      newest && [h('h2', {}, 'Restore'), h('p', {}, 'Stop the server, and restore the newest backup with this command:'), h('pre', { tabindex: 0 }, newest.restore)],
    ],
    state && replication(state))
}
