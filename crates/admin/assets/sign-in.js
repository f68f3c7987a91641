// Logging in, and setting a password with a one-time token.

import { get, loadSession, send, session, settings } from './api.js'
import { button, fail, fill, form, h, labelled } from './dom.js'
import { hasPasskeys, needsPasskey, signed } from './passkeys.js'

const text = (label, attributes, options) => labelled(label, h('input', attributes), options)

export const signInPage = async (main, parts, query, go) => {
  const { passkeys = false } = session.setup ? {} : await get('/auth/options')
  const name = text('Name', { autocomplete: 'username', required: true, value: session.setup ? 'admin' : '' })
  const password = text('Password', { type: 'password', autocomplete: 'current-password', required: true })
  const code = text('Code', { autocomplete: 'one-time-code', spellcheck: 'false' },
    { hint: 'From your authenticator app, or a recovery code' })
  code.hidden = true
  const withPassword = async proof => {
    await send('POST', '/auth/login', { name: name.target.value, password: password.target.value, ...proof, cookie: true })
    await enter()
  }
  const second = button('Use a passkey', async () => { try { await withPassword({ passkey: await signed() }) } catch (error) { fail(error) } })
  second.hidden = true
  const logIn = async () => {
    try {
      await withPassword(code.hidden ? {} : { code: code.target.value.trim() })
    } catch (error) {
      if (!code.hidden || !error.errors?.some(one => one.field === 'code')) throw error
      code.hidden = false
      second.hidden = !needsPasskey(error)
      ;(second.hidden ? code.target : second).focus()
    }
  }
  const byPasskey = async () => {
    try {
      await send('POST', '/auth/passkeys/login', { passkey: await signed(), cookie: true })
      await enter()
    } catch (error) { fail(error) }
  }
  const enter = async () => {
    await loadSession()
    if (!session.user) throw new Error('The browser did not keep the session. Open this page over https, or at localhost.')
    await go('#/')
  }
  fill(main, h('div', { class: 'small' }, h('h1', {}, `Sign in to ${settings.title}`),
    session.setup && h('p', { class: 'notice' }, 'No user has a password yet. ',
      h('a', { href: '#/set-password/admin' }, 'Set the password of the first administrator'), '.'),
    form([name, password, code], { submit: 'Sign in', send: logIn, fields: { code }, extra: [second] }),
    passkeys && hasPasskeys && h('div', { class: 'buttons' }, button('Sign in with a passkey', byPasskey)),
    !session.setup && h('p', {}, h('a', { href: '#/set-password' }, 'Set a password with a token'))))
  ;(name.target.value ? password : name).target.focus()
}

// `#/set-password/NAME/TOKEN`: the part after `#` is not sent to servers.
export const setPasswordPage = async (main, [user = '', once = ''], query, go) => {
  const name = text('Name', { autocomplete: 'username', required: true, value: user })
  const token = text('Token', { autocomplete: 'off', required: true, value: once, spellcheck: 'false' },
    { hint: user === 'admin' ? 'The server has printed it in the terminal at its start.' : 'You got it from an administrator.' })
  const password = text('New password', { type: 'password', autocomplete: 'new-password', required: true })
  const set = async () => {
    const [user, given] = [name.target.value, password.target.value]
    await send('POST', '/auth/set-password', { name: user, token: token.target.value.trim(), password: given })
    await send('POST', '/auth/login', { name: user, password: given, cookie: true })
    await loadSession()
    if (!session.user) throw new Error('The password is set, but the browser did not keep the session. Open this page over https, or at localhost.')
    history.replaceState(null, '', '#/')
    await go('#/')
  }
  fill(main, h('div', { class: 'small' }, h('h1', {}, 'Set a password'),
    form([name, token, password], { submit: 'Set password', send: set, fields: { password, name, token } })))
  ;[name, token, password].find(field => !field.target.value)?.target.focus()
}

export const signOut = async () => {
  await send('POST', '/auth/logout').catch(error => { if (error.status !== 401) throw error })
  await loadSession()
}

export const me = () => get('/auth/me')
