// Webhooks: their definitions, and the deliveries of one.

import { get, send, tables } from './api.js'
import { button, confirmed, fail, fill, form, h, labelled, list, notify, openDialog, secret, time } from './dom.js'

const KINDS = ['insert', 'update', 'delete']
const STATES = ['', 'pending', 'delivered', 'failed']

const at = (name, action = '') => `/-/webhooks/${encodeURIComponent(name)}${action}`
const pathOf = name => `#/webhook/${encodeURIComponent(name)}`

// Shows the form of a new webhook, or of one that exists.
const edit = (webhook, again) => {
  const text = (label, value, hint) => labelled(label, h('input', { value: value ?? '', autocomplete: 'off', spellcheck: 'false' }), { hint })
  const name = webhook ? null : text('Name', '', 'Letters, digits, -, _ and .')
  const url = text('URL', webhook?.url ?? '')
  const table = labelled('Table', h('select', {}, [...tables.keys()].map(option => h('option', { value: option, selected: option === webhook?.table }, option))))
  const filter = text('Only rows where', webhook?.filter, 'A filter, such as state = \'open\'; empty for all rows')
  const fields = text('Only these fields', webhook?.fields.join(', '), 'Names with commas between; empty for all fields')
  const kinds = h('fieldset', { class: 'inline' }, h('legend', {}, 'Changes'), KINDS.map(kind =>
    h('label', { class: 'choice' }, h('input', { type: 'checkbox', value: kind, checked: webhook?.kinds.includes(kind) ?? true }), kind)))
  const save = async () => {
    await send('PUT', at(webhook?.name ?? name.target.value.trim()), {
      url: url.target.value.trim(),
      table: table.target.value,
      filter: filter.target.value.trim() || null,
      kinds: [...kinds.querySelectorAll('input:checked')].map(input => input.value),
      fields: fields.target.value.split(',').map(field => field.trim()).filter(Boolean),
    })
    dialog.close()
    notify('Saved')
    await again()
  }
  const dialog = openDialog(webhook ? `Webhook ${webhook.name}` : 'New webhook',
    form([name, url, table, filter, kinds, fields], { submit: 'Save', send: save, extra: [button('Cancel', () => dialog.close())] }))
}

const showSecret = async name => {
  const { secret: text } = await get(at(name, '/secret'))
  const dialog = openDialog(`Secret of ${name}`, h('p', {}, 'The receiver verifies signatures with it (Standard Webhooks).'),
    secret('Secret', text), h('div', { class: 'buttons' }, button('Close', () => dialog.close(), { kind: 'primary' })))
}

const stateOf = webhook => [h('span', { class: 'tag' }, webhook.state), webhook.reason && [' ', webhook.reason],
  !webhook.reason && webhook.failing_since && [' fails since ', time(webhook.failing_since)]]

export const webhooksPage = async main => {
  let webhooks
  try {
    ({ webhooks } = await get('/-/webhooks'))
  } catch (error) {
    if (error.status !== 404) throw error
    fill(main, h('h1', {}, 'Webhooks'), h('p', {}, 'The server sends no changes. Start it with ', h('code', {}, '--webhooks'), '.'))
    return
  }
  const again = () => webhooksPage(main)
  const act = async (work, done) => {
    try { await work(); notify(done); await again() } catch (error) { fail(error) }
  }
  const actions = webhook => h('div', { class: 'buttons' },
    button('Edit', () => edit(webhook, again), { 'aria-label': `Edit ${webhook.name}` }),
    button('Secret', () => showSecret(webhook.name).catch(fail), { 'aria-label': `Secret of ${webhook.name}` }),
    webhook.state === 'enabled'
      ? button('Disable', () => act(() => send('POST', at(webhook.name, '/disable')), 'Disabled'), { 'aria-label': `Disable ${webhook.name}` })
      : button('Enable', () => act(() => send('POST', at(webhook.name, '/enable')), 'Enabled'), { 'aria-label': `Enable ${webhook.name}` }),
    button('Delete', async () => {
      if (await confirmed(`Delete the webhook ${webhook.name} with its deliveries?`, 'Delete')) act(() => send('DELETE', at(webhook.name)), 'Deleted')
    }, { kind: 'danger', 'aria-label': `Delete ${webhook.name}` }))
  fill(main,
    h('div', { class: 'title' }, h('h1', {}, 'Webhooks'), h('span', { class: 'grow' }), button('New webhook', () => edit(null, again), { kind: 'primary' })),
    h('p', { class: 'muted' }, 'A webhook sends the changes of a table to a URL, at least once and in the order of each row.'),
    list('Webhooks', ['Name', 'Table', 'URL', 'State', h('span', { class: 'hidden' }, 'Actions')],
      webhooks.map(webhook => [h('a', { href: pathOf(webhook.name) }, webhook.name), webhook.table, webhook.url, stateOf(webhook), actions(webhook)])))
}

// The deliveries of one webhook.
export const webhookPage = async (main, [name], query, go) => {
  const state = query.get('state') ?? ''
  const before = query.get('before')
  const parameters = new URLSearchParams({ limit: '50', ...state && { state }, ...before && { before } })
  const [webhook, { deliveries, next }] = await Promise.all([get(at(name)), get(`${at(name, '/deliveries')}?${parameters}`)])
  const again = () => webhookPage(main, [name], query, go)
  const replay = async body => {
    try {
      const { replayed } = await send('POST', at(name, '/replay'), body)
      notify(`${replayed} sent again`)
      await again()
    } catch (error) { fail(error) }
  }
  const choose = labelled('State', h('select', {
    onchange: event => go(`${pathOf(name)}${event.target.value && `?state=${event.target.value}`}`),
  }, STATES.map(option => h('option', { value: option, selected: option === state }, option || 'all'))))
  const show = delivery => {
    const dialog = openDialog(`Delivery ${delivery.id}`, h('pre', {}, JSON.stringify(delivery.payload, null, 2)),
      delivery.error && h('p', { class: 'error' }, delivery.error),
      h('div', { class: 'buttons' }, button('Close', () => dialog.close(), { kind: 'primary' })))
  }
  const older = next && `${pathOf(name)}?${new URLSearchParams({ ...state && { state }, before: next })}`
  fill(main, h('p', { class: 'crumbs' }, h('a', { href: '#/webhooks' }, 'Webhooks')),
    h('div', { class: 'title' }, h('h1', {}, `Webhook ${name}`), h('span', { class: 'grow' }),
      button('Send failed deliveries again', () => replay({ failed: true }))),
    h('p', {}, stateOf(webhook)), choose,
    list('Deliveries', ['Change', 'Row', 'State', 'Attempts', 'Time', h('span', { class: 'hidden' }, 'Actions')], deliveries.map(delivery => [
      delivery.event, delivery.row, [h('span', { class: 'tag' }, delivery.state), delivery.status && ` ${delivery.status}`], String(delivery.attempts), time(delivery.created_at),
      h('div', { class: 'buttons' }, button('Show', () => show(delivery), { 'aria-label': `Show ${delivery.id}` }),
        button('Send again', () => replay({ delivery: delivery.id }), { 'aria-label': `Send again: delivery ${delivery.id}` }))])),
    older && h('p', {}, h('a', { href: older }, 'Older deliveries')))
}
