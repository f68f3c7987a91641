// Users, groups with their grants, and the account of the caller.

import { get, loadApp, loadSession, request, saveApp, send, session, tables } from './api.js'
import { button, confirmed, fail, fill, form, h, labelled, list, notify, openDialog, secret, time } from './dom.js'

const RIGHTS = ['read', 'history', 'insert', 'update', 'delete', 'refer']

const choice = (text, attributes) => h('label', { class: 'choice' }, h('input', { type: 'checkbox', ...attributes }), text)

const groupChoices = (groups, chosen) => h('fieldset', {}, h('legend', {}, 'Groups'),
  groups.length === 0 ? h('p', { class: 'muted' }, 'There are no groups yet.') : groups.map(({ name }) =>
    choice(name, { value: name, checked: chosen.includes(name) })))

const chosenOf = fieldset => [...fieldset.querySelectorAll('input:checked')].map(input => input.value)

// Shows a token with which a user sets a password.
const showToken = (name, token) => {
  const link = `${location.origin}${location.pathname}#/set-password/${encodeURIComponent(name)}/${token}`
  const dialog = openDialog(`Password of ${name}`,
    h('p', {}, 'Send this link to the user. It sets a password once, within 24 hours, and is not shown again.'),
    secret('Link', link), secret('Token', token),
    h('div', { class: 'buttons' }, button('Close', () => dialog.close(), { kind: 'primary' })))
}

export const usersPage = async main => {
  const [{ users }, { groups }, options] = await Promise.all([get('/auth/users'), get('/auth/groups'), get('/auth/options')])
  const invites = options.mails && options.sign_up !== 'closed'
  const { invitations } = invites ? await get('/auth/invitations') : { invitations: [] }
  const again = () => usersPage(main)
  const act = async (work, done) => {
    try { await work(); if (done) notify(done); await again() } catch (error) { fail(error) }
  }
  const edit = user => {
    const member = groupChoices(groups, user?.groups ?? [])
    const name = user ? null : labelled('Name', h('input', { autocomplete: 'off', required: true }))
    const admin = choice('Administrator: all rights, and this page', { checked: user?.is_admin })
    const disabled = user && choice('Disabled: cannot log in', { checked: user.is_disabled })
    const isChecked = label => label.querySelector('input').checked
    const save = async () => {
      const body = { groups: chosenOf(member), is_admin: isChecked(admin) }
      if (user) await send('PATCH', `/auth/users/${user.id}`, { ...body, is_disabled: isChecked(disabled) })
      const made = user ? null : await send('POST', '/auth/users', { ...body, name: name.target.value })
      dialog.close()
      await again()
      if (made) showToken(name.target.value, made.token)
      else notify('Saved')
    }
    const dialog = openDialog(user ? `User ${user.name}` : 'New user',
      form([name, member, admin, disabled], { submit: user ? 'Save' : 'Create', send: save, fields: name ? { name } : {}, extra: [button('Cancel', () => dialog.close())] }))
  }
  const invite = () => {
    const email = labelled('Email address', h('input', { type: 'email', autocomplete: 'off', required: true }))
    const member = groupChoices(groups, [])
    const save = async () => {
      await send('POST', '/auth/invitations', { email: email.target.value, groups: chosenOf(member) })
      dialog.close()
      notify('The invitation is sent')
      await again()
    }
    const dialog = openDialog('Invite a person',
      form([email, member], { submit: 'Invite', send: save, fields: { email }, extra: [button('Cancel', () => dialog.close())] }))
  }
  const revoke = ({ id, email }) => button('Revoke', () => act(() => send('DELETE', `/auth/invitations/${id}`), 'Revoked'), { kind: 'danger', 'aria-label': `Revoke the invitation of ${email}` })
  const actions = user => h('div', { class: 'buttons' },
    button('Edit', () => edit(user), { 'aria-label': `Edit ${user.name}` }),
    button('New token', async () => {
      try { showToken(user.name, (await send('POST', `/auth/users/${user.id}/token`)).token) } catch (error) { fail(error) }
    }, { 'aria-label': `New token for ${user.name}` }),
    button('Log out', () => act(() => send('POST', `/auth/users/${user.id}/logout`), 'All sessions have ended'), { 'aria-label': `Log out ${user.name}` }),
    button('Delete', async () => {
      if (await confirmed(`Delete the user ${user.name}?`, 'Delete')) act(() => send('DELETE', `/auth/users/${user.id}`), 'Deleted')
    }, { kind: 'danger', 'aria-label': `Delete ${user.name}` }))
  const state = user => [user.is_admin && h('span', { class: 'tag' }, 'administrator'), ' ',
    user.is_disabled && h('span', { class: 'tag' }, 'disabled'), ' ', !user.has_password && h('span', { class: 'tag' }, 'no password')]
  fill(main,
    h('div', { class: 'title' }, h('h1', {}, 'Users'), h('span', { class: 'grow' }), invites && button('Invite', invite), button('New user', () => edit(null), { kind: 'primary' })),
    list('Users', ['Name', 'State', 'Groups', 'Created', h('span', { class: 'hidden' }, 'Actions')],
      users.map(user => [user.name, state(user), user.groups.join(', '), time(user.created_at), actions(user)])),
    invitations.length > 0 && [h('h2', {}, 'Invitations'), list('Invitations', ['Email address', 'Groups', 'Ends', h('span', { class: 'hidden' }, 'Actions')],
      invitations.map(one => [one.email, one.groups.join(', '), time(one.ends_at), revoke(one)]))])
}

export const groupsPage = async main => {
  const { groups } = await get('/auth/groups')
  const fieldsOf = grant => grant.fields ? ` of ${grant.fields.join(', ')}` : grant.except ? ` except ${grant.except.join(', ')}` : ''
  const of = grant => `${grant.table}: ${grant.rights.join(', ')}${fieldsOf(grant)}${grant.rule ? ` where ${grant.rule}` : ''}`
  fill(main,
    h('div', { class: 'title' }, h('h1', {}, 'Groups'), h('span', { class: 'grow' }), h('a', { class: 'button primary', href: '#/group' }, 'New group')),
    h('p', { class: 'muted' }, 'A group grants rights on tables to its users. Without a grant, a user sees nothing. Administrators have all rights.'),
    list('Groups', ['Name', 'Grants'], groups.map(group => [
      h('a', { href: `#/group/${encodeURIComponent(group.name)}` }, group.name),
      group.grants.length === 0 ? h('span', { class: 'muted' }, 'none') : h('ul', {}, group.grants.map(grant => h('li', {}, of(grant))))])))
}

// One group: its grants and their rules. The groups of an application file are changed there, and new ones
// are added to it, because the file replaces the stored groups at a start.
export const groupPage = async (main, [name], query, go) => {
  const [{ groups }, file] = await Promise.all([get('/auth/groups'), session.hasApp ? loadApp() : null])
  const group = groups.find(group => group.name === name) ?? { name: name ?? '', grants: [] }
  const isNew = !groups.includes(group)
  const isInFile = file !== null && (isNew || group.name in file.app.groups)
  const saveGroups = groups => saveApp({ ...file.app, groups }, file.tag)
  const title = isNew ? labelled('Name', h('input', { autocomplete: 'off', required: true, value: group.name })) : null
  const grants = h('div', { class: 'grants' })
  const add = grant => {
    const known = ['*', ...tables.keys(), ...grant.table && grant.table !== '*' && !tables.has(grant.table) ? [grant.table] : []]
    const table = h('select', {}, known.map(option => h('option', { value: option, selected: option === grant.table }, option === '*' ? 'all tables' : option)))
    const rights = h('fieldset', { class: 'inline' }, h('legend', {}, 'Rights'), RIGHTS.map(right => choice(right, { value: right, checked: grant.rights.includes(right) })))
    const rule = labelled('Only rows where', h('input', { class: 'mono', value: grant.rule ?? '', spellcheck: 'false', autocomplete: 'off', placeholder: 'all rows' }),
      { hint: 'A filter, such as owner = @user.id, team in @user.groups, any(project.member, user = @user.id)' })
    const names = (text, known, hint) => labelled(text, h('input', { value: (known ?? []).join(', '), spellcheck: 'false', autocomplete: 'off' }), { hint })
    const only = names('Only these fields', grant.fields, 'Names with commas between; empty for all fields')
    const except = names('All fields but these', grant.except)
    const listOf = field => field.target.value.split(',').map(name => name.trim()).filter(Boolean)
    const element = h('section', { class: 'card', 'aria-label': 'Grant' }, labelled('Table', table), rights, rule, h('div', { class: 'row' }, only, except),
      button('Remove grant', () => element.remove()))
    // Members that this page does not know are kept.
    element.grant = () => ({
      ...grant, table: table.value, rights: chosenOf(rights), rule: rule.target.value.trim() || undefined,
      fields: listOf(only).length > 0 || grant.fields?.length === 0 ? listOf(only) : undefined, except: listOf(except).length > 0 ? listOf(except) : undefined,
    })
    element.rule = rule
    grants.append(element)
  }
  group.grants.forEach(add)
  const save = async () => {
    const target = title ? title.target.value.trim() : group.name
    if (target === '') throw Object.assign(new Error('A group has a name.'), { errors: [{ field: 'name', message: 'is required' }] })
    if (isNew && groups.some(other => other.name === target)) throw Object.assign(new Error('This group exists already.'), { errors: [{ field: 'name', message: 'exists already' }] })
    const elements = [...grants.children]
    elements.forEach(element => element.rule.setError(''))
    try {
      const changed = { grants: elements.map(element => element.grant()) }
      if (isInFile) await saveGroups({ ...file.app.groups, [target]: changed })
      else await send('PUT', `/auth/groups/${encodeURIComponent(target)}`, changed)
    } catch (error) {
      // The error of a rule is shown at the rule that it concerns: the file names it; otherwise there may be
      // only one.
      const number = error.message.match(/grants\[(\d+)\]/)?.[1]
      const at = number ? [elements[number]] : elements.filter(element => element.grant().rule)
      if (at.length !== 1 || !at[0].grant().rule || !number && error.status !== 422) throw error
      at[0].rule.setError(error.message)
      throw new Error('The rule is not valid.')
    }
    notify('Saved')
    go('#/groups')
  }
  const remove = async () => {
    if (!await confirmed(`Delete the group ${group.name}?`, 'Delete')) return
    try {
      const { [group.name]: removed, ...rest } = file?.app.groups ?? {}
      if (isInFile) await saveGroups(rest)
      else await send('DELETE', `/auth/groups/${encodeURIComponent(group.name)}`)
      notify('Deleted')
      go('#/groups')
    } catch (error) { fail(error) }
  }
  fill(main, h('p', { class: 'crumbs' }, h('a', { href: '#/groups' }, 'Groups')),
    h('h1', {}, isNew ? 'New group' : `Group ${group.name}`),
    file !== null && h('p', { class: 'muted' }, isInFile ? 'It is saved in the application file.' : 'It is saved in the database: the application file does not have it.'),
    form([title, h('h2', {}, 'Grants'), grants,
      button('Add grant', () => add({ table: '*', rights: ['read'] }))],
    { submit: 'Save', send: save, fields: title ? { name: title } : {}, extra: [!isNew && button('Delete', remove, { kind: 'danger' })] }))
}

const DURATIONS = [['30 days', 30 * 86400], ['90 days', 90 * 86400], ['1 year', 365 * 86400], ['without end', '']]

export const accountPage = async (main, parts, query, go) => {
  const [user, { keys }] = await Promise.all([get('/auth/me'), get('/auth/keys')])
  const again = () => accountPage(main, parts, query, go)
  const name = labelled('Name of the key', h('input', { autocomplete: 'off', required: true }))
  const duration = labelled('Valid for', h('select', {}, DURATIONS.map(([text, seconds]) => h('option', { value: seconds }, text))))
  const makeKey = async () => {
    const seconds = duration.target.value
    const { key } = await send('POST', '/auth/keys', { name: name.target.value, ...seconds && { seconds: Number(seconds) } })
    await again()
    const dialog = openDialog('New API key', h('p', {}, 'The key is not shown again. Programs send it as ', h('code', {}, 'Authorization: Bearer …'), '.'),
      secret('Key', key), h('div', { class: 'buttons' }, button('Close', () => dialog.close(), { kind: 'primary' })))
  }
  const revoke = async key => {
    if (!await confirmed(`Revoke the key ${key.name}?`, 'Revoke')) return
    try { await send('DELETE', `/auth/keys/${key.id}`); notify('Revoked'); await again() } catch (error) { fail(error) }
  }
  const old = labelled('Current password', h('input', { type: 'password', autocomplete: 'current-password' }))
  const fresh = labelled('New password', h('input', { type: 'password', autocomplete: 'new-password' }))
  const leave = async path => {
    try {
      await request('POST', path)
      await loadSession()
      await go('#/')
    } catch (error) { fail(error) }
  }
  const change = async () => {
    await send('POST', '/auth/password', { old: old.target.value, new: fresh.target.value })
    await loadSession()
    notify('The password is changed. Sign in with the new one.')
    await go('#/')
  }
  fill(main, h('h1', {}, session.user.name),
    h('p', { class: 'muted' }, user.is_admin ? 'Administrator' : `Groups: ${user.groups.join(', ') || 'none'}`),
    h('section', {}, h('h2', {}, 'API keys'),
      list('API keys', ['Name', 'Created', 'Ends', h('span', { class: 'hidden' }, 'Actions')], keys.map(key => [key.name, time(key.created_at), key.ends_at ? time(key.ends_at) : 'never',
        button('Revoke', () => revoke(key), { kind: 'danger', 'aria-label': `Revoke ${key.name}` })]), 'You have no keys.'),
      form([h('div', { class: 'row' }, name, duration)], { submit: 'Create key', send: makeKey, fields: { name } })),
    h('section', {}, h('h2', {}, 'Sessions'),
      list('Sessions', ['Login', 'Address', 'Ends if unused'], user.sessions.map(one => [time(one.created_at), one.address ?? '', time(one.ends_at)])),
      h('div', { class: 'buttons' }, button('Sign out', () => leave('/auth/logout')), button('Sign out everywhere', () => leave('/auth/logout-everywhere')))),
    h('section', {}, h('h2', {}, 'Password'),
      form([old, fresh], { submit: 'Change password', send: change, fields: { old, new: fresh, password: fresh } })))
}
