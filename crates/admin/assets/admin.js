// The frame of the administration: navigation, and the page that the address names.

import { accessPage } from './access.js'
import { accountPage, groupPage, groupsPage, usersPage } from './accounts.js'
import { isAdmin, loadSession, loadTables, session, settings, tables } from './api.js'
import { backupsPage } from './backups.js'
import { button, clearErrors, describe, fail, fill, h } from './dom.js'
import { tablePage, tablesPage } from './grid.js'
import { jobsPage } from './jobs.js'
import { logPage } from './log.js'
import { metricsPage } from './metrics.js'
import { newRowPage, rowPage } from './row.js'
import { schemaPage, schemaTablePage } from './schema.js'
import { setPasswordPage, signInPage, signOut } from './sign-in.js'
import { eventsPage } from './events.js'
import { sqlPage } from './sql.js'
import { statisticsPage } from './statistics.js'
import { webhookPage, webhooksPage } from './webhooks.js'

const always = () => true
const hasAccounts = () => session.accounts

// The first part of the address, its page, and its entry in the navigation: a name, and a function
// that returns true if the entry is shown.
const PAGES = [
  { path: '', show: tablesPage, name: 'All tables', isShown: always },
  { path: 'table', show: tablePage },
  { path: 'row', show: rowPage },
  { path: 'new', show: newRowPage },
  { path: 'schema', show: schemaPage, name: 'Tables and fields', isShown: () => session.hasApp },
  { path: 'schema-table', show: schemaTablePage },
  { path: 'users', show: usersPage, name: 'Users', isShown: isAdmin },
  { path: 'groups', show: groupsPage, name: 'Groups', isShown: isAdmin },
  { path: 'group', show: groupPage },
  { path: 'access', show: accessPage, name: 'Try as a user', isShown: () => session.has.access },
  { path: 'account', show: accountPage, name: 'Account', isShown: hasAccounts },
  { path: 'webhooks', show: webhooksPage, name: 'Webhooks', isShown: () => !session.accounts || isAdmin() },
  { path: 'webhook', show: webhookPage },
  { path: 'jobs', show: jobsPage, name: 'Jobs', isShown: () => session.has.jobs },
  { path: 'backups', show: backupsPage, name: 'Backups', isShown: () => session.has.backups || session.has.replication },
  { path: 'log', show: logPage, name: 'Log', isShown: () => session.has.log },
  { path: 'events', show: eventsPage, name: 'Security events', isShown: isAdmin },
  { path: 'sql', show: sqlPage, name: 'SQL', isShown: () => session.has.sql },
  { path: 'metrics', show: metricsPage, name: 'Metrics', isShown: () => !session.accounts || isAdmin() },
  { path: 'statistics', show: statisticsPage, name: 'Statistics', isShown: () => !session.accounts || isAdmin() },
]

const main = document.getElementById('main')
const navigation = document.getElementById('navigation')
const menu = document.getElementById('menu')

const entry = (href, text) => h('li', {}, h('a', { href, 'aria-current': location.hash.split('?')[0] === href || (href === '#/' && location.hash === '') ? 'page' : null }, text))

const showNavigation = () => {
  const isIn = !session.accounts || session.user
  menu.hidden = !isIn
  document.body.classList.toggle('bare', !isIn)
  if (!isIn) { fill(navigation); return }
  const [first, ...others] = PAGES.filter(page => page.name && page.isShown())
  fill(navigation,
    h('h2', {}, 'Tables'), h('ul', {}, entry('#/', first.name), [...tables.keys()].map(name => entry(`#/table/${name}`, name))),
    h('h2', {}, 'Server'), h('ul', {}, others.map(({ path, name }) => entry(`#/${path}`, name)), h('li', {}, h('a', { href: '/docs' }, 'API documentation'))))
}

const showUser = () => fill(document.getElementById('user'),
  !session.accounts && h('span', { class: 'notice', title: 'The server does not authenticate callers (option --auth)' }, 'No login: everyone may change all rows'),
  session.user && [h('a', { href: '#/account' }, session.user.name), button('Sign out', () => signOut().then(render, fail))])

let cleanup
let number = 0

const pageOf = address => {
  const [path, query = ''] = address.replace(/^#\/?/, '').split(/\?(.*)/s)
  const [first, ...parts] = path.split('/').map(decodeURIComponent)
  return { first, parts, query: new URLSearchParams(query) }
}

// Navigates to an address, also to the current one.
const go = async address => {
  if (location.hash === address) await render()
  else location.hash = address
}

const render = async () => {
  const current = ++number
  const { first, parts, query } = pageOf(location.hash)
  cleanup?.()
  cleanup = undefined
  clearErrors()
  navigation.classList.remove('open')
  menu.setAttribute('aria-expanded', 'false')
  const isOut = session.accounts && !session.user
  const page = first === 'set-password' ? { show: setPasswordPage } : isOut ? { show: signInPage } : PAGES.find(page => page.path === first)
  // A page is built apart, and shown if no other one was requested meanwhile.
  const place = h('div', {})
  try {
    if (!isOut && tables.size === 0) await loadTables()
    if (current !== number) return
    showNavigation()
    showUser()
    main.setAttribute('aria-busy', 'true')
    fill(main, place)
    const ended = page ? await page.show(place, parts, query, go) : fill(place, h('h1', {}, 'No such page'), h('p', {}, h('a', { href: '#/' }, 'All tables')))
    if (current !== number) { ended?.(); return }
    cleanup = ended
  } catch (error) {
    if (current !== number) return
    if (error.status === 401 && session.accounts) {
      session.user = null
      tables.clear()
      await render()
      return
    }
    fill(place, h('h1', {}, 'Error'), h('p', { class: 'error', role: 'alert' }, describe(error)), button('Try again', render))
    console.error(error)
  }
  main.removeAttribute('aria-busy')
  const heading = main.querySelector('h1')
  document.title = `${heading?.textContent ?? ''} · ${settings.title}`
  if (heading && !main.contains(document.activeElement)) {
    heading.tabIndex = -1
    heading.focus({ preventScroll: true })
  }
}

menu.addEventListener('click', () => {
  const isOpen = navigation.classList.toggle('open')
  menu.setAttribute('aria-expanded', String(isOpen))
})
document.getElementById('name').textContent = settings.title
addEventListener('hashchange', () => render())
try {
  await loadSession()
  await render()
} catch (error) {
  fill(main, h('h1', {}, 'Error'), h('p', { class: 'error', role: 'alert' }, describe(error)))
}
