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

// Returns the answer of a passkey that the person chooses.
export const signed = () => inWords(async () => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await send('POST', '/auth/passkeys/challenge'))
  return (await navigator.credentials.get({ publicKey })).toJSON()
})

// Makes a passkey, and returns its answer.
export const made = () => inWords(async () => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await send('POST', '/auth/passkeys/options'))
  return (await navigator.credentials.create({ publicKey })).toJSON()
})

// True if a request needs a passkey as its second factor.
export const needsPasskey = error => hasPasskeys && (error.errors ?? []).some(one => one.field === 'passkey' && one.rule === 'required')
