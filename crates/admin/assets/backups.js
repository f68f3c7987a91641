// Backups in a folder: list, make, verify, download; the state of the replication.

import { get, send, session, urlOf } from './api.js'
import { button, describe, fail, fill, h, list, notify, time } from './dom.js'

const size = bytes => bytes < 1024 ? `${bytes} B` : bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : bytes < 1024 ** 3 ? `${(bytes / 1024 ** 2).toFixed(1)} MiB` : `${(bytes / 1024 ** 3).toFixed(2)} GiB`

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
  fill(main, h('div', { class: 'title' }, h('h1', {}, 'Backups and replication'), h('span', { class: 'grow' }), found && make),
    found && [
      h('p', { class: 'muted' }, `Folder ${found.folder}. `, found.schedule ? ['By schedule: ', h('code', {}, found.schedule), ', next ', time(found.next_at), '. '] : 'No schedule (option --backup-schedule). ',
        found.keep ? `The newest ${found.keep} are kept.` : 'All are kept (option --backup-keep).'),
      list('Backups', ['Name', 'Time', ['Size', 'number'], 'Content', h('span', { class: 'hidden' }, 'Actions')], found.backups.map(row), 'No backups yet.'),
      newest && [h('h2', {}, 'Restore'), h('p', {}, 'Stop the server, and restore the newest backup with this command:'), h('pre', { tabindex: 0 }, newest.restore)],
    ],
    state && replication(state))
}
