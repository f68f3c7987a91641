// The pages of an account: signing in and up, passwords, and the account of the user who is signed in.
//
// The part of the address after `#` names the page, and has the token of a link: it is not sent to servers.

import { get, loadSession, send, session, settings } from './api.js'
import { button, clearErrors, confirmed, describe, fail, fill, form, h, labelled, list, notify, openDialog, secret, time } from './dom.js'
import { autofilled, hasPasskeys, made, needsPasskey, rememberPasskey, remembersPasskey, signed } from './passkeys.js'
import { chooseLanguage, loadTexts, t } from './texts.js'
import { formField } from './fields.js'

const main = document.getElementById('main')
let languages = await loadTexts()
const options = await get('/auth/options')

const control = (label, attributes, more) => labelled(label, h('input', { required: true, ...attributes }), more)
const emailField = () => control(t('Email address'), { type: 'email', autocomplete: 'email' })
const passwordField = () => control(t('Password'), { type: 'password', autocomplete: 'current-password' })
const newPasswordField = () => control(t('New password'), { type: 'password', autocomplete: 'new-password' }, { hint: t('At least 8 characters') })
const codeField = () => control(t('Code'), { autocomplete: 'one-time-code', spellcheck: 'false' },
  { hint: t('From your authenticator app, or a recovery code') })
const value = field => field.target.value

const show = (title, ...children) => {
  document.title = `${title} · ${settings.title}`
  fill(main, h('div', { class: 'small' }, h('h1', {}, title), children))
  main.querySelector('input')?.focus()
}

const link = (page, text) => h('a', { href: `#/${page}` }, text)
const links = (...all) => h('nav', { 'aria-label': t('Other ways') }, h('ul', { class: 'plain' }, all.filter(Boolean).map(one => h('li', {}, one))))

// The page to return to after signing in: only of this server.
const next = () => {
  const wanted = new URLSearchParams(location.search).get('next')
  if (!wanted) return null
  const url = new URL(wanted, location.origin)
  return url.origin === location.origin && url.pathname !== location.pathname ? url.href : null
}

const entered = async () => {
  await loadSession()
  if (!session.user) throw new Error(t('The browser did not keep the session. Open this page over https, or at localhost.'))
  const target = next()
  if (target) location.assign(target)
  else await go('')
}

const needsCode = error => (error.errors ?? []).some(one => one.field === 'code' && one.rule === 'required')

// The buttons of the providers. The browser comes back to this page, with a state and a code.
const providers = (words, add) => options.providers.length > 0 && h('div', { class: 'buttons' }, options.providers.map(one =>
  button(t(words, { title: one.title }), () => leave(one.name, add).catch(fail))))

const leave = async (name, add) => {
  const target = next() && new URL(next())
  const path = target ? target.pathname + target.search + target.hash : undefined
  const { url } = await send('POST', `/auth/sign-in/${name}`, { next: path, add })
  location.assign(url)
}

// Ends a sign-in with a provider. The code of the provider does not stay in the history.
const returned = async query => {
  history.replaceState(null, '', location.pathname)
  const failed = text => show(t('The sign-in was not completed'), h('p', { class: 'error', role: 'alert' }, text),
    links(h('a', { href: '#/sign-in' }, session.user ? t('Your account') : t('Sign in'))))
  if (!query.get('code')) return failed(t('The provider has refused it, or you have canceled it.'))
  const finish = async proof => {
    const answer = { state: query.get('state'), provider_code: query.get('code'), issuer: query.get('iss') ?? undefined }
    const done = await send('POST', '/auth/sign-in', { ...answer, ...proof, cookie: true })
    if (done.next) location.assign(done.next)
    else await entered()
  }
  try {
    await finish()
  } catch (error) {
    if (needsCode(error)) show(t('Sign in to {title}', { title: settings.title }), formWithCode([], t('Sign in'), finish, true))
    else failed(describe(error))
  }
}

// A form that asks for the second factor of the account: a passkey, or a code. `sendIt` gets it as the
// members of a body.
const formWithCode = (fields, submit, sendIt, isNeeded = false) => {
  const code = codeField()
  code.hidden = !isNeeded
  const passkey = button(t('Use a passkey'), () => withPasskey().catch(fail))
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
    const [name, password] = [control(t('Email address or name'), { autocomplete: 'username webauthn' }), passwordField()]
    const signIn = async proof => {
      await send('POST', '/auth/login', { name: value(name), password: value(password), ...proof, cookie: true })
      await entered()
    }
    const byPasskey = async () => {
      await send('POST', '/auth/passkeys/login', { passkey: await signed(), cookie: true })
      await entered()
    }
    const byAutofill = async () => {
      const passkey = await autofilled()
      if (!passkey || !name.isConnected) return
      await send('POST', '/auth/passkeys/login', { passkey, cookie: true })
      await entered()
    }
    if (options.passkeys && remembersPasskey()) byAutofill().catch(fail)
    show(t('Sign in to {title}', { title: settings.title }), formWithCode([name, password], t('Sign in'), signIn),
      options.passkeys && hasPasskeys && h('div', { class: 'buttons' }, button(t('Sign in with a passkey'), () => byPasskey().catch(fail))),
      providers('Sign in with {title}'), links(
      options.mails && ['open', 'domains'].includes(options.sign_up) && link('sign-up', t('Create an account')),
      options.login_links && link('login-link', t('Sign in by email')),
      options.mails && link('reset-password', t('Forgotten password'))))
  },

  'sign-up': () => {
    if (!['open', 'domains'].includes(options.sign_up)) {
      return show(t('Create an account'), h('p', {}, t('Accounts are by invitation. Ask an administrator.')), links(link('sign-in', t('Sign in'))))
    }
    const hint = options.domains.length ? t('An address of {domains}', { domains: options.domains.join(', ') }) : null
    request(t('Create an account'), '/auth/sign-up', t('Continue'), t('We send you a link that creates the account.'), hint)
  },

  'reset-password': token => {
    if (!token) return request(t('Forgotten password'), '/auth/reset', t('Send link'), t('We send you a link that sets a new password.'))
    const password = newPasswordField()
    const reset = async () => {
      await send('POST', '/auth/reset-password', { token, password: value(password) })
      done(t('The password is set'), t('All sessions were ended. Sign in with the new password.'))
    }
    show(t('Set a new password'), form([password], { submit: t('Set password'), send: reset, fields: { password } }))
  },

  'login-link': token => {
    if (!token) return request(t('Sign in by email'), '/auth/login-link', t('Send link'), t('We send you a link that signs you in.'))
    const signIn = async proof => {
      await send('POST', '/auth/login-with-link', { token, ...proof, cookie: true })
      history.replaceState(null, '', location.pathname + location.search)
      await entered()
    }
    show(t('Sign in to {title}', { title: settings.title }), formWithCode([], t('Sign in'), signIn))
  },

  join: token => {
    const name = control(t('Name'), { required: false, autocomplete: 'username', maxlength: 100 }, { hint: t('To sign in with, instead of the email address. Optional') })
    const password = newPasswordField()
    const own = profileFields({}, true)
    const join = async () => {
      const profile = own.length ? valuesOf(own) : undefined
      await send('POST', '/auth/join', { token, name: value(name) || undefined, password: value(password), profile })
      done(t('Your account is ready'), t('Sign in with your email address and the password.'))
    }
    show(t('Create your account'), form([password, name, own.map(one => one.element)], { submit: t('Create account'), send: join, fields: { name, password, ...elementsOf(own) } }))
  },

  'confirm-address': token => {
    const confirm = async () => {
      await send('POST', '/auth/confirm-email', { token })
      done(t('The address is confirmed'), t('It is the email address of your account now.'))
    }
    show(t('Confirm your email address'), form([], { submit: t('Confirm'), send: confirm }))
  },
}

// A page that sends a mail. What it shows does not depend on whether the address has an account.
const request = (title, path, submit, text, hint) => {
  const email = labelled(t('Email address'), h('input', { type: 'email', autocomplete: 'email', required: true }), { hint })
  const ask = async () => {
    await send('POST', path, { email: value(email) })
    done(t('Check your email'), t('If {email} can be used here, it gets a mail within a few minutes. The link in it works once.', { email: value(email) }))
  }
  show(title, h('p', {}, text), form([email], { submit, send: ask, fields: { email } }), links(link('sign-in', t('Sign in'))))
}

const done = (title, text) => {
  history.replaceState(null, '', location.pathname + location.search)
  show(title, h('p', { role: 'status' }, text), links(h('a', { href: '#/sign-in' }, session.user ? t('Your account') : t('Sign in'))))
  main.focus()
}

// The controls of the application's own fields of users: those of its table of profiles. Their labels can be
// translated, as each other text.
const profileFields = (row, isNew) => (options.profile?.fields ?? []).map(field => {
  const name = field.name.replaceAll('_', ' ')
  const label = t(name.charAt(0).toUpperCase() + name.slice(1))
  return formField({ name: options.profile.table }, field, row[field.name], { isNew, label })
}).filter(Boolean)
const elementsOf = fields => Object.fromEntries(fields.map(one => [one.field.name, one.element]))
const valuesOf = fields => Object.fromEntries(fields.map(one => [one.field.name, one.read()]).filter(([, read]) => read !== undefined))

// The account of the user who is signed in.
const account = async () => {
  const user = session.user
  const passkeys = options.passkeys ? (await get('/auth/passkeys')).passkeys : []
  const identities = options.providers.length ? (await get('/auth/identities')).identities : []
  const profile = options.profile && await profilePart(user)
  document.title = `${t('Account')} · ${settings.title}`
  fill(main, h('div', { class: 'small' }, h('h1', {}, t('Your account')),
    h('p', {}, t('Signed in as'), ' ', h('strong', {}, user.name), '.'),
    profile, addressPart(user), user.has_password && passwordPart(), providersPart(identities), passkeysPart(passkeys, user), appPart(user), sessionsPart(user), dataPart(user)))
}

const part = (title, ...children) => h('section', {}, h('h2', {}, title), children)

const reload = async text => {
  await loadSession()
  await go('')
  if (text) notify(text)
}

const profilePart = async user => {
  const path = `/${options.profile.table}`
  const found = await get(`${path}?filter=${encodeURIComponent(`user = ${user.id}`)}`).catch(error => {
    if (error.status === 403 || error.status === 404) return null
    throw error
  })
  // Without the right to read it, there is no part for it.
  if (!found) return null
  const [row] = found.rows
  const own = profileFields(row ?? {}, !row)
  const key = options.profile.key
  const save = async () => {
    if (row) await send('PATCH', `${path}/${row[key]}`, valuesOf(own))
    else await send('POST', path, { ...valuesOf(own), user: user.id })
    await reload(t('The profile was saved.'))
  }
  return part(t('Profile'), form(own.map(one => one.element), { submit: t('Save the profile'), send: save, fields: elementsOf(own) }))
}

const addressPart = user => {
  const [email, password] = [emailField(), passwordField()]
  const change = async () => {
    await send('POST', '/auth/email', { email: value(email), password: value(password) })
    notify(t('A link was sent to {email}. The address changes when you open it.', { email: value(email) }))
  }
  return part(t('Email address'), h('p', {}, user.email ?? t('None yet.')),
    options.mails && form([email, password], { submit: t('Change address'), send: change, fields: { email, password } }))
}

const passwordPart = () => {
  const [old, password] = [control(t('Current password'), { type: 'password', autocomplete: 'current-password' }), newPasswordField()]
  const change = async () => {
    await send('POST', '/auth/password', { old: value(old), new: value(password) })
    await reload(t('The password was changed. Sign in with the new one.'))
  }
  return part(t('Password'), form([old, password], { submit: t('Change password'), send: change, fields: { old, password } }))
}

const providersPart = identities => {
  if (!options.providers.length) return null
  const remove = async id => {
    await send('DELETE', `/auth/identities/${id}`)
    await reload(t('The provider was removed.'))
  }
  const rows = identities.map(one => [new URL(one.issuer).host, one.email ?? '', time(one.created_at),
    button(t('Remove'), () => remove(one.id).catch(fail), { 'aria-label': t('Remove {name}', { name: new URL(one.issuer).host }) })])
  return part(t('Providers'), h('p', {}, t('Sign in with an account that you have elsewhere.')),
    rows.length > 0 && list(t('Providers'), [t('Provider'), t('Address'), t('Since'), h('span', { class: 'hidden' }, t('Actions'))], rows),
    providers('Add {title}', true))
}

const showCodes = codes => fill(main, h('div', { class: 'small' }, h('h1', {}, t('Recovery codes')),
  h('p', {}, t('Each of these codes replaces a code of your app, or your passkey after the password, once. Keep them where only you find them; they are not shown again.')),
  h('ul', { class: 'mono' }, codes.map(code => h('li', {}, code))),
  h('div', { class: 'buttons' }, button(t('Continue'), () => reload().catch(fail), { kind: 'primary' }))))

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
    const dialog = openDialog(t('Confirm that it is you'),
      session.user.has_password && formWithCode([password], t('Confirm'), proof => confirm({ password: value(password), ...proof })),
      !session.user.has_password && providers('Sign in with {title}'),
      h('div', { class: 'buttons' },
        hasPasskeys && button(t('Confirm with a passkey'), async () => { try { await confirm({ passkey: await signed() }) } catch (failed) { fail(failed) } }),
        button(t('Cancel'), () => dialog.close())))
  }
}

const passkeysPart = (passkeys, user) => {
  if (!options.passkeys) return null
  const name = control(t('Name of the passkey'), { maxlength: 100, autocomplete: 'off' }, { hint: t('Such as the name of this device') })
  const add = () => withRecent(async () => {
    const { recovery_codes: codes } = await send('POST', '/auth/passkeys', { name: value(name), passkey: await made() })
    rememberPasskey()
    await loadSession()
    if (codes) showCodes(codes)
    else await reload(t('The passkey was added.'))
  })
  const rename = one => {
    const field = control(t('Name'), { maxlength: 100, autocomplete: 'off', value: one.name })
    const save = async () => {
      await send('PATCH', `/auth/passkeys/${one.id}`, { name: value(field) })
      dialog.close()
      await reload()
    }
    const dialog = openDialog(t('Rename the passkey'),
      form([field], { submit: t('Save'), send: save, fields: { name: field }, extra: [button(t('Cancel'), () => dialog.close())] }))
  }
  const remove = async one => {
    if (!await confirmed(t('Remove the passkey {name}?', { name: one.name }), t('Remove'))) return
    await withRecent(async () => {
      await send('DELETE', `/auth/passkeys/${one.id}`)
      await reload(t('The passkey was removed. Delete it on your device, too.'))
    })
  }
  const rows = passkeys.map(one => [one.name, time(one.created_at), time(one.used_at), h('div', { class: 'buttons' },
    button(t('Rename'), () => rename(one), { 'aria-label': t('Rename {name}', { name: one.name }) }),
    button(t('Remove'), () => remove(one).catch(fail), { 'aria-label': t('Remove {name}', { name: one.name }) }))])
  return part(t('Passkeys'), h('p', {}, t('Sign in with your fingerprint, your face or the PIN of your device, or with a security key. After the password, the passkey is the second step.')),
    rows.length > 0 && list(t('Passkeys'), [t('Name'), t('Since'), t('Last used'), h('span', { class: 'hidden' }, t('Actions'))], rows),
    rows.length > 0 && user.recovery_codes !== null && h('p', {}, t('{count} recovery codes are left.', { count: user.recovery_codes })),
    hasPasskeys ? form([name], { submit: t('Add a passkey'), send: add, fields: { name } })
      : h('p', { class: 'muted' }, t('This browser has no passkeys, or this page was not opened over https.')))
}

const appPart = user => {
  if (!user.has_app) {
    const password = passwordField()
    const begin = async () => {
      const setup = await send('POST', '/auth/totp', { password: value(password) })
      const code = control(t('Code'), { autocomplete: 'one-time-code', inputmode: 'numeric' })
      const confirm = async () => showCodes((await send('POST', '/auth/totp/confirm', { code: value(code) })).recovery_codes)
      fill(main, h('div', { class: 'small' }, h('h1', {}, t('Set up an authenticator app')),
        h('p', {}, t('Scan this code with the app, or enter the secret into it.'), ' ', h('a', { href: setup.url }, t('Open it in an app on this device')), '. ', t('Then enter the code that the app shows.')),
        image(setup.qr_code, t('QR code of the secret')),
        secret(t('Secret'), setup.secret),
        form([code], { submit: t('Confirm'), send: confirm, fields: { code }, extra: [button(t('Cancel'), () => reload().catch(fail))] })))
    }
    return part(t('Authenticator app'), h('p', {}, t('A second step when you sign in: a code of an app on your phone.')),
      form([password], { submit: t('Set up an app'), send: begin, fields: { password } }))
  }
  const [password, code] = [passwordField(), codeField()]
  const remove = async () => {
    await send('POST', '/auth/totp/remove', { password: value(password), code: value(code) })
    await reload(t('The app was removed.'))
  }
  return part(t('Authenticator app'), h('p', {}, t('On.'), ' ', t('{count} recovery codes are left.', { count: user.recovery_codes })),
    form([password, code], { submit: t('Remove the app'), send: remove, fields: { password, code } }))
}

const sessionsPart = user => {
  const end = async id => {
    await send('DELETE', `/auth/sessions/${id}`)
    await reload(t('The session was ended.'))
  }
  const rows = user.sessions.map(one => [one.device ?? t('Unknown device'), one.address ?? '', time(one.created_at),
    one.id === user.session ? t('This device') : button(t('End'), () => end(one.id).catch(fail), { 'aria-label': t('End the session of {device}', { device: one.device ?? t('Unknown device') }) })])
  const everywhere = async () => {
    await send('POST', '/auth/logout-everywhere')
    await reload(t('All sessions were ended.'))
  }
  return part(t('Sessions'), list(t('Sessions'), [t('Device'), t('Address'), t('Since'), h('span', { class: 'hidden' }, t('Actions'))], rows),
    h('div', { class: 'buttons' }, button(t('Sign out everywhere'), () => everywhere().catch(fail))))
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
    if (!user.has_password) return removeWithout()
    if (!proof.code && !proof.passkey && !await confirmed(t('Delete your account? This cannot be undone.'), t('Delete'))) return
    await send('POST', '/auth/delete-account', { password: value(password), ...proof })
    await reload(t('Your account was deleted.'))
  }
  // A user of a passkey or a provider alone: the last authentication has to be recent.
  const removeWithout = async () => {
    if (!await confirmed(t('Delete your account? This cannot be undone.'), t('Delete'))) return
    await withRecent(async () => {
      await send('POST', '/auth/delete-account', {})
      await reload(t('Your account was deleted.'))
    })
  }
  return part(t('Your data'), h('div', { class: 'buttons' }, button(t('Download your data'), () => download().catch(fail))),
    formWithCode(user.has_password ? [password] : [], t('Delete the account'), remove))
}

const languageChoice = () => {
  if (languages.languages.length < 2) return null
  const named = code => new Intl.DisplayNames([code], { type: 'language' }).of(code)
  const choose = async event => {
    chooseLanguage(event.target.value)
    languages = await loadTexts()
    await route()
  }
  return h('select', { 'aria-label': t('Language'), onchange: event => choose(event).catch(fail) },
    languages.languages.map(code => h('option', { value: code, lang: code, selected: code === languages.language }, named(code))))
}

const showUser = () => fill(document.getElementById('user'), languageChoice(), session.user && button(t('Sign out'), async () => {
  await send('POST', '/auth/logout').catch(error => { if (error.status !== 401) throw error })
  await reload()
}))

const route = async () => {
  clearErrors()
  const [page = '', token = ''] = location.hash.slice(2).split('/').map(decodeURIComponent)
  document.querySelector('.skip').textContent = t('Skip to the content')
  showUser()
  const known = Object.hasOwn(pages, page) ? page : 'sign-in'
  if (session.user && (known === 'sign-in' || known === 'sign-up')) return account()
  return pages[known](token)
}

const go = async page => {
  history.replaceState(null, '', location.pathname + location.search + (page ? `#/${page}` : ''))
  await route()
}

const showError = error => fill(main, h('h1', {}, t('The page cannot be shown')), h('p', { class: 'error', role: 'alert' }, describe(error)))

document.getElementById('name').textContent = settings.title
window.addEventListener('hashchange', () => route().catch(showError))
const query = new URLSearchParams(location.search)
const isReturn = query.has('state') && (query.has('code') || query.has('error'))
await loadSession().then(() => isReturn ? returned(query) : route()).catch(showError)
