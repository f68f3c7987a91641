// Passkeys in a browser: making one, and signing with one (WebAuthn Level 3).

import { send } from './api.js'

// True if the browser has passkeys, and their JSON forms. They need https, or localhost.
export const hasPasskeys = typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential

const inWords = async work => {
  try {
    return await work()
  } catch (error) {
    if (error.name === 'NotAllowedError') throw new Error('The passkey was not used: it was canceled, or took too long.')
    if (error.name === 'InvalidStateError') throw new Error('This device has a passkey of this account already.')
    if (error.name === 'SecurityError') throw new Error('Passkeys cannot be used at this address.')
    throw error
  }
}

// Whether this browser has used a passkey here, so that it can offer one in the field of the name.
const REMEMBERED = 'marmota-passkey'
export const rememberPasskey = () => localStorage.setItem(REMEMBERED, 'yes')
export const remembersPasskey = () => hasPasskeys && localStorage.getItem(REMEMBERED) !== null

// The offer of the field, which ends when the person asks for a passkey in another way.
let offer = null
const endOffer = () => {
  offer?.abort()
  offer = null
}

// Returns the answer of a passkey that the person chooses in the suggestions of the field, or null if the
// browser has no such suggestions, or the offer has ended. A challenge ends after five minutes, so a new one
// is requested before.
export const autofilled = async () => {
  if (!await PublicKeyCredential.isConditionalMediationAvailable?.()) return null
  for (;;) {
    endOffer()
    const mine = offer = new AbortController()
    const renewed = setTimeout(() => mine.abort('renew'), 4 * 60 * 1000)
    try {
      const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await send('POST', '/auth/passkeys/challenge'))
      if (mine.signal.aborted) return null
      return (await navigator.credentials.get({ publicKey, mediation: 'conditional', signal: mine.signal })).toJSON()
    } catch {
      // A page in the background is not renewed, and errors are those of no request of the person.
      if (mine.signal.reason !== 'renew' || document.hidden) return null
    } finally {
      clearTimeout(renewed)
    }
  }
}

// Returns the answer of a passkey that the person chooses.
export const signed = () => inWords(async () => {
  endOffer()
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await send('POST', '/auth/passkeys/challenge'))
  const passkey = (await navigator.credentials.get({ publicKey })).toJSON()
  rememberPasskey()
  return passkey
})

// Makes a passkey, and returns its answer.
export const made = () => inWords(async () => {
  endOffer()
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await send('POST', '/auth/passkeys/options'))
  return (await navigator.credentials.create({ publicKey })).toJSON()
})

// True if a request needs a passkey as its second factor.
export const needsPasskey = error => hasPasskeys && (error.errors ?? []).some(one => one.field === 'passkey' && one.rule === 'required')
