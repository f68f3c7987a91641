// A provider of OpenID Connect for tests: node's oidc-provider, with its own pages for logins and consent.
//
// node open_id_provider.mjs PATH_OF_OIDC_PROVIDER PORT
//
// Each login is an account with an address of example.org. The address of a name that begins with `un` is
// not verified.

const [path, port] = process.argv.slice(2)
const { default: Provider } = await import(path)

const claims = id => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith('un') })
const provider = new Provider(`http://127.0.0.1:${port}`, {
  // A native client may be redirected to each port of this machine (RFC 8252, 7.3).
  clients: [{
    client_id: 'shop',
    client_secret: 'hush',
    application_type: 'native',
    redirect_uris: ['http://127.0.0.1/account'],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  claims: { email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['for tests'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => claims(id) }),
  pkce: { required: () => true },
})
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'))
