// Security events, for administrators: the newest first.

import { get } from './api.js'
import { button, fail, fill, h, list, time } from './dom.js'

const PAGE = 200

const shown = detail => Object.entries(detail).map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`).join(', ')

export const eventsPage = async main => {
  const { users } = await get('/auth/users')
  const names = new Map(users.map(user => [user.id, user.name]))
  const all = []
  const more = async () => {
    const before = all.length ? `?before=${all.at(-1).id}` : ''
    const { events } = await get(`/auth/events${before}`)
    all.push(...events)
    const rows = all.map(one => [time(one.at), one.kind, one.user === null ? '' : names.get(one.user) ?? `${one.user}`, one.address ?? '', shown(one.detail)])
    fill(main, h('h1', {}, 'Security events'),
      list('Security events', ['Time', 'Event', 'User', 'Address', 'Details'], rows, 'None yet.'),
      events.length === PAGE && h('div', { class: 'buttons' }, button('Older events', () => more().catch(fail))))
  }
  await more()
}
