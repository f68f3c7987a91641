// The pages of an account: signing in and up, passwords, and the account of the user who is signed in.
//
// The part of the address after `#` names the page, and has the token of a link: it is not sent to servers.

import { get, loadSession, send, session, settings } from './api.js'
import { button, clearErrors, confirmed, describe, fail, fill, form, h, labelled, list, notify, openDialog, secret, time } from './dom.js'
import { hasPasskeys, made, needsPasskey, signed } from './passkeys.js'

const main = document.getElementById('main')
const options = await get('/auth/options')

const control = (label, attributes, more) => labelled(label, h('input', { required: true, ...attributes }), more)
const emailField = () => control('Email address', { type: 'email', autocomplete: 'email' })
const passwordField = () => control('Password', { type: 'password', autocomplete: 'current-password' })
const newPasswordField = () => control('New password', { type: 'password', autocomplete: 'new-password' }, { hint: 'At least 8 characters' })
const codeField = () => control('Code', { autocomplete: 'one-time-code', spellcheck: 'false' },
  { hint: 'From your authenticator app, or a recovery code' })
const value = field => field.target.value

const show = (title, ...children) => {
  document.title = `${title} · ${settings.title}`
  fill(main, h('div', { class: 'small' }, h('h1', {}, title), children))
  main.querySelector('input')?.focus()
}

const link = (page, text) => h('a', { href: `#/${page}` }, text)
const links = (...all) => h('nav', { 'aria-label': 'Other ways' }, h('ul', { class: 'plain' }, all.filter(Boolean).map(one => h('li', {}, one))))

// The page to return to after signing in: only of this server.
const next = () => {
  const wanted = new URLSearchParams(location.search).get('next')
  if (!wanted) return null
  const url = new URL(wanted, location.origin)
  return url.origin === location.origin && url.pathname !== location.pathname ? url.href : null
}

const entered = async () => {
  await loadSession()
  if (!session.user) throw new Error('The browser did not keep the session. Open this page over https, or at localhost.')
  const target = next()
  if (target) location.assign(target)
  else await go('')
}

const needsCode = error => (error.errors ?? []).some(one => one.field === 'code' && one.rule === 'required')

// The buttons of the providers. The browser comes back to this page, with a state and a code.
const providers = (words, add) => options.providers.length > 0 && h('div', { class: 'buttons' }, options.providers.map(one =>
  button(`${words} ${one.title}`, () => leave(one.name, add).catch(fail))))

const leave = async (name, add) => {
  const target = next() && new URL(next())
  const path = target ? target.pathname + target.search + target.hash : undefined
  const { url } = await send('POST', `/auth/sign-in/${name}`, { next: path, add })
  location.assign(url)
}

// Ends a sign-in with a provider. The code of the provider does not stay in the history.
const returned = async query => {
  history.replaceState(null, '', location.pathname)
  const failed = text => show('The sign-in was not completed', h('p', { class: 'error', role: 'alert' }, text),
    links(h('a', { href: '#/sign-in' }, session.user ? 'Your account' : 'Sign in')))
  if (!query.get('code')) return failed('The provider has refused it, or you have canceled it.')
  const finish = async proof => {
    const answer = { state: query.get('state'), provider_code: query.get('code'), issuer: query.get('iss') ?? undefined }
    const done = await send('POST', '/auth/sign-in', { ...answer, ...proof, cookie: true })
    if (done.next) location.assign(done.next)
    else await entered()
  }
  try {
    await finish()
  } catch (error) {
    if (needsCode(error)) show(`Sign in to ${settings.title}`, formWithCode([], 'Sign in', finish, true))
    else failed(describe(error))
  }
}

// A form that asks for the second factor of the account: a passkey, or a code. `sendIt` gets it as the
// members of a body.
const formWithCode = (fields, submit, sendIt, isNeeded = false) => {
  const code = codeField()
  code.hidden = !isNeeded
  const passkey = button('Use a passkey', () => withPasskey().catch(fail))
  passkey.hidden = true
  const withPasskey = async () => sendIt({ passkey: await signed() })
  const withCode = async () => {
    try {
      await sendIt(code.hidden ? {} : { code: value(code).trim() })
    } catch (error) {
      if (!needsCode(error) || !code.hidden) throw error
      code.hidden = false
      passkey.hidden = !needsPasskey(error)
      ;(passkey.hidden ? code.target : passkey).focus()
    }
  }
  return form([...fields, code], { submit, send: withCode, fields: { code }, extra: [passkey] })
}

const pages = {
  'sign-in': () => {
    const [name, password] = [control('Email address or name', { autocomplete: 'username' }), passwordField()]
    const signIn = async proof => {
      await send('POST', '/auth/login', { name: value(name), password: value(password), ...proof, cookie: true })
      await entered()
    }
    const byPasskey = async () => {
      await send('POST', '/auth/passkeys/login', { passkey: await signed(), cookie: true })
      await entered()
    }
    show(`Sign in to ${settings.title}`, formWithCode([name, password], 'Sign in', signIn),
      options.passkeys && hasPasskeys && h('div', { class: 'buttons' }, button('Sign in with a passkey', () => byPasskey().catch(fail))),
      providers('Sign in with'), links(
      options.mails && ['open', 'domains'].includes(options.sign_up) && link('sign-up', 'Create an account'),
      options.login_links && link('login-link', 'Sign in by email'),
      options.mails && link('reset-password', 'Forgotten password')))
  },

  'sign-up': () => {
    if (!['open', 'domains'].includes(options.sign_up)) {
      return show('Create an account', h('p', {}, 'Accounts are by invitation. Ask an administrator.'), links(link('sign-in', 'Sign in')))
    }
    const hint = options.domains.length ? `An address of ${options.domains.join(', ')}` : null
    request('Create an account', '/auth/sign-up', 'Continue', 'We send you a link that creates the account.', hint)
  },

  'reset-password': token => {
    if (!token) return request('Forgotten password', '/auth/reset', 'Send link', 'We send you a link that sets a new password.')
    const password = newPasswordField()
    const reset = async () => {
      await send('POST', '/auth/reset-password', { token, password: value(password) })
      done('The password is set', 'All sessions were ended. Sign in with the new password.')
    }
    show('Set a new password', form([password], { submit: 'Set password', send: reset, fields: { password } }))
  },

  'login-link': token => {
    if (!token) return request('Sign in by email', '/auth/login-link', 'Send link', 'We send you a link that signs you in.')
    const signIn = async proof => {
      await send('POST', '/auth/login-with-link', { token, ...proof, cookie: true })
      history.replaceState(null, '', location.pathname + location.search)
      await entered()
    }
    show(`Sign in to ${settings.title}`, formWithCode([], 'Sign in', signIn))
  },

  join: token => {
    const name = control('Name', { required: false, autocomplete: 'username', maxlength: 100 }, { hint: 'To sign in with, instead of the email address. Optional' })
    const password = newPasswordField()
    const join = async () => {
      await send('POST', '/auth/join', { token, name: value(name) || undefined, password: value(password) })
      done('Your account is ready', 'Sign in with your email address and the password.')
    }
    show('Create your account', form([password, name], { submit: 'Create account', send: join, fields: { name, password } }))
  },

  'confirm-address': token => {
    const confirm = async () => {
      await send('POST', '/auth/confirm-email', { token })
      done('The address is confirmed', 'It is the email address of your account now.')
    }
    show('Confirm your email address', form([], { submit: 'Confirm', send: confirm }))
  },
}

// A page that sends a mail. What it shows does not depend on whether the address has an account.
const request = (title, path, submit, text, hint) => {
  const email = labelled('Email address', h('input', { type: 'email', autocomplete: 'email', required: true }), { hint })
  const ask = async () => {
    await send('POST', path, { email: value(email) })
    done('Look into your mail', `If ${value(email)} can be used here, it gets a mail within a few minutes. The link in it works once.`)
  }
  show(title, h('p', {}, text), form([email], { submit, send: ask, fields: { email } }), links(link('sign-in', 'Sign in')))
}

const done = (title, text) => {
  history.replaceState(null, '', location.pathname + location.search)
  show(title, h('p', { role: 'status' }, text), links(h('a', { href: '#/sign-in' }, session.user ? 'Your account' : 'Sign in')))
  main.focus()
}

// The account of the user who is signed in.
const account = async () => {
  const user = session.user
  const passkeys = options.passkeys ? (await get('/auth/passkeys')).passkeys : []
  const identities = options.providers.length ? (await get('/auth/identities')).identities : []
  document.title = `Account · ${settings.title}`
  fill(main, h('div', { class: 'small' }, h('h1', {}, 'Your account'),
    h('p', {}, 'Signed in as ', h('strong', {}, user.name), '.'),
    addressPart(user), passwordPart(), providersPart(identities), passkeysPart(passkeys, user), appPart(user), sessionsPart(user), dataPart(user)))
}

const part = (title, ...children) => h('section', {}, h('h2', {}, title), children)

const reload = async text => {
  await loadSession()
  await go('')
  if (text) notify(text)
}

const addressPart = user => {
  const [email, password] = [emailField(), passwordField()]
  const change = async () => {
    await send('POST', '/auth/email', { email: value(email), password: value(password) })
    notify(`A link was sent to ${value(email)}. The address changes when you open it.`)
  }
  return part('Email address', h('p', {}, user.email ?? 'None yet.'),
    options.mails && form([email, password], { submit: 'Change address', send: change, fields: { email, password } }))
}

const passwordPart = () => {
  const [old, password] = [control('Current password', { type: 'password', autocomplete: 'current-password' }), newPasswordField()]
  const change = async () => {
    await send('POST', '/auth/password', { old: value(old), new: value(password) })
    await reload('The password was changed. Sign in with the new one.')
  }
  return part('Password', form([old, password], { submit: 'Change password', send: change, fields: { old, password } }))
}

const providersPart = identities => {
  if (!options.providers.length) return null
  const remove = async id => {
    await send('DELETE', `/auth/identities/${id}`)
    await reload('The provider was removed.')
  }
  const rows = identities.map(one => [new URL(one.issuer).host, one.email ?? '', time(one.created_at),
    button('Remove', () => remove(one.id).catch(fail), { 'aria-label': `Remove ${new URL(one.issuer).host}` })])
  return part('Providers', h('p', {}, 'Sign in with an account that you have elsewhere.'),
    rows.length > 0 && list('Providers', ['Provider', 'Address', 'Since', h('span', { class: 'hidden' }, 'Actions')], rows),
    providers('Add', true))
}

const showCodes = codes => fill(main, h('div', { class: 'small' }, h('h1', {}, 'Recovery codes'),
  h('p', {}, 'Each of these codes replaces a code of your app, or your passkey after the password, once. Keep them where only you find them; they are not shown again.'),
  h('ul', { class: 'mono' }, codes.map(code => h('li', {}, code))),
  button('Continue', () => reload().catch(fail), { kind: 'primary' })))

// The QR code of the server's image. The page may not parse texts (Trusted Types), so its path is copied.
const image = (svg, text) => {
  const element = (tag, attributes, ...children) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag)
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
    made.append(...children)
    return made
  }
  const [size] = /viewBox="0 0 (\d+)/.exec(svg)?.slice(1) ?? []
  const [d] = / d="([^"]+)"/.exec(svg)?.slice(1) ?? []
  if (!size || !d) return null
  return h('p', {}, element('svg', { role: 'img', 'aria-label': text, width: size, height: size, viewBox: `0 0 ${size} ${size}` },
    element('rect', { width: size, height: size, fill: '#fff' }), element('path', { d, fill: '#000' })))
}

// Does what needs a recent authentication. If the last one is too old, the person confirms who they are.
const withRecent = async work => {
  try {
    await work()
  } catch (error) {
    if (!(error.errors ?? []).some(one => one.rule === 'step-up')) throw error
    const password = passwordField()
    const confirm = async body => {
      await send('POST', '/auth/step-up', body)
      dialog.close()
      await work()
    }
    const dialog = openDialog('Confirm that it is you',
      formWithCode([password], 'Confirm', proof => confirm({ password: value(password), ...proof })),
      h('div', { class: 'buttons' },
        hasPasskeys && button('Confirm with a passkey', async () => { try { await confirm({ passkey: await signed() }) } catch (failed) { fail(failed) } }),
        button('Cancel', () => dialog.close())))
  }
}

const passkeysPart = (passkeys, user) => {
  if (!options.passkeys) return null
  const name = control('Name of the passkey', { maxlength: 100, autocomplete: 'off' }, { hint: 'Such as the name of this device' })
  const add = () => withRecent(async () => {
    const { recovery_codes: codes } = await send('POST', '/auth/passkeys', { name: value(name), passkey: await made() })
    await loadSession()
    if (codes) showCodes(codes)
    else await reload('The passkey was added.')
  })
  const rename = one => {
    const field = control('Name', { maxlength: 100, autocomplete: 'off', value: one.name })
    const save = async () => {
      await send('PATCH', `/auth/passkeys/${one.id}`, { name: value(field) })
      dialog.close()
      await reload()
    }
    const dialog = openDialog('Rename the passkey',
      form([field], { submit: 'Save', send: save, fields: { name: field }, extra: [button('Cancel', () => dialog.close())] }))
  }
  const remove = async one => {
    if (!await confirmed(`Remove the passkey ${one.name}?`, 'Remove')) return
    await withRecent(async () => {
      await send('DELETE', `/auth/passkeys/${one.id}`)
      await reload('The passkey was removed. Delete it on your device, too.')
    })
  }
  const rows = passkeys.map(one => [one.name, time(one.created_at), time(one.used_at), h('div', { class: 'buttons' },
    button('Rename', () => rename(one), { 'aria-label': `Rename ${one.name}` }),
    button('Remove', () => remove(one).catch(fail), { 'aria-label': `Remove ${one.name}` }))])
  return part('Passkeys', h('p', {}, 'Sign in with your fingerprint, your face or the PIN of your device, or with a security key. After the password, the passkey is the second step.'),
    rows.length > 0 && list('Passkeys', ['Name', 'Since', 'Last used', h('span', { class: 'hidden' }, 'Actions')], rows),
    rows.length > 0 && user.recovery_codes !== null && h('p', {}, `${user.recovery_codes} recovery codes are left.`),
    hasPasskeys ? form([name], { submit: 'Add a passkey', send: add, fields: { name } })
      : h('p', { class: 'muted' }, 'This browser has no passkeys, or this page was not opened over https.'))
}

const appPart = user => {
  if (!user.has_app) {
    const password = passwordField()
    const begin = async () => {
      const setup = await send('POST', '/auth/totp', { password: value(password) })
      const code = control('Code', { autocomplete: 'one-time-code', inputmode: 'numeric' })
      const confirm = async () => showCodes((await send('POST', '/auth/totp/confirm', { code: value(code) })).recovery_codes)
      fill(main, h('div', { class: 'small' }, h('h1', {}, 'Set up an authenticator app'),
        h('p', {}, 'Scan this code with the app, enter the secret into it, or ', h('a', { href: setup.url }, 'open it in an app on this device'), '. Then enter the code that the app shows.'),
        image(setup.qr_code, 'QR code of the secret'),
        secret('Secret', setup.secret),
        form([code], { submit: 'Confirm', send: confirm, fields: { code }, extra: [button('Cancel', () => reload().catch(fail))] })))
    }
    return part('Authenticator app', h('p', {}, 'A second step when you sign in: a code of an app on your phone.'),
      form([password], { submit: 'Set up an app', send: begin, fields: { password } }))
  }
  const [password, code] = [passwordField(), codeField()]
  const remove = async () => {
    await send('POST', '/auth/totp/remove', { password: value(password), code: value(code) })
    await reload('The app was removed.')
  }
  return part('Authenticator app', h('p', {}, `On. ${user.recovery_codes} recovery codes are left.`),
    form([password, code], { submit: 'Remove the app', send: remove, fields: { password, code } }))
}

const sessionsPart = user => {
  const end = async id => {
    await send('DELETE', `/auth/sessions/${id}`)
    await reload('The session was ended.')
  }
  const rows = user.sessions.map(one => [one.device ?? 'Unknown device', one.address ?? '', time(one.created_at),
    one.id === user.session ? 'This device' : button('End', () => end(one.id).catch(fail), { 'aria-label': `End the session of ${one.device ?? 'an unknown device'}` })])
  const everywhere = async () => {
    await send('POST', '/auth/logout-everywhere')
    await reload('All sessions were ended.')
  }
  return part('Sessions', list('Sessions', ['Device', 'Address', 'Since', h('span', { class: 'hidden' }, 'Actions')], rows),
    h('div', { class: 'buttons' }, button('Sign out everywhere', () => everywhere().catch(fail))))
}

const dataPart = user => {
  const download = async () => {
    const text = JSON.stringify(await get('/auth/data'), null, 2)
    const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }))
    h('a', { href: url, download: 'account.json' }).click()
    URL.revokeObjectURL(url)
  }
  const password = passwordField()
  const remove = async proof => {
    if (!proof.code && !proof.passkey && !await confirmed('Delete your account? This cannot be undone.', 'Delete')) return
    await send('POST', '/auth/delete-account', { password: value(password), ...proof })
    await reload('Your account was deleted.')
  }
  return part('Your data', h('div', { class: 'buttons' }, button('Download your data', () => download().catch(fail))),
    formWithCode([password], 'Delete the account', remove))
}

const showUser = () => fill(document.getElementById('user'), session.user && button('Sign out', async () => {
  await send('POST', '/auth/logout').catch(error => { if (error.status !== 401) throw error })
  await reload()
}))

const route = async () => {
  clearErrors()
  const [page = '', token = ''] = location.hash.slice(2).split('/').map(decodeURIComponent)
  showUser()
  const known = Object.hasOwn(pages, page) ? page : 'sign-in'
  if (session.user && (known === 'sign-in' || known === 'sign-up')) return account()
  return pages[known](token)
}

const go = async page => {
  history.replaceState(null, '', location.pathname + location.search + (page ? `#/${page}` : ''))
  await route()
}

const showError = error => fill(main, h('h1', {}, 'The page cannot be shown'), h('p', { class: 'error', role: 'alert' }, describe(error)))

document.getElementById('name').textContent = settings.title
window.addEventListener('hashchange', () => route().catch(showError))
const query = new URLSearchParams(location.search)
const isReturn = query.has('state') && (query.has('code') || query.has('error'))
await loadSession().then(() => isReturn ? returned(query) : route()).catch(showError)
