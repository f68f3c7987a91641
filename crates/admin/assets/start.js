// The start page.

import { get, settings } from './api.js'
import { fill, h } from './dom.js'

document.title = settings.title
document.getElementById('name').textContent = settings.title
document.getElementById('version').textContent = settings.version && `Version ${settings.version}`
document.getElementById('api').href = settings.api || '/'
const list = document.getElementById('tables')
try {
  const { tables } = await get('')
  fill(list, tables.length === 0
    ? h('p', { class: 'muted' }, 'This API has no tables.')
    : h('ul', { class: 'cards' }, tables.map(table => h('li', {}, h('a', { href: table.href }, h('strong', {}, table.name), ' ', h('span', { class: 'muted' }, table.href))))))
} catch (error) {
  fill(list, h('p', { class: 'muted' }, error.status === 401 ? ['Sign in at the ', h('a', { href: '/admin' }, 'administration'), ' to see the tables.'] : error.message))
}
