//! [`WebAuthn`]: passkeys by the protocol of browsers (WebAuthn Level 3), verified by `webauthn_rp`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_model::{Error, ErrorKind, Result};
use serde::Serialize;
use webauthn_rp::bin::{Decode, Encode};
use webauthn_rp::request::auth::{
    AuthenticationVerificationOptions, DiscoverableCredentialRequestOptions,
};
use webauthn_rp::request::register::{
    CredProtect, PublicKeyCredentialCreationOptions, PublicKeyCredentialUserEntity,
    RegistrationVerificationOptions, UserHandle64, Username,
};
use webauthn_rp::request::{AsciiDomain, ExtensionInfo, PublicKeyCredentialDescriptor, RpId};
use webauthn_rp::response::register::DynamicState;
use webauthn_rp::response::{AuthTransports, CredentialId};
use webauthn_rp::{
    AuthenticatedCredential, DiscoverableAuthentication64, DiscoverableAuthenticationServerState,
    Registration, RegistrationServerState,
};

use crate::credentials::passkey::{
    HANDLE_BYTES, NewPasskey, PasskeyProtocol, PasskeyRequest, PasskeyUser,
};

/// Passkeys by WebAuthn, for one origin.
///
/// ```
/// use marmota_auth::{Settings, WebAuthn};
///
/// let passkeys = WebAuthn::new("https://shop.example.org")?;
/// let settings = Settings::default().passkeys(passkeys);
/// assert!(WebAuthn::new("http://192.0.2.1").is_err());
/// # let _ = settings;
/// # Ok::<(), marmota_model::Error>(())
/// ```
#[derive(Debug)]
pub struct WebAuthn {
    rp_id: RpId,
    /// The scheme, host and port of the pages.
    origin: String,
}

impl WebAuthn {
    /// Creates the protocol for the server with this public URL. Its host is the id of the relying party:
    /// passkeys are of no use at another host, also after a change of the URL.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that browsers have no passkeys for: they need https and a name, or
    /// `http://localhost`.
    pub fn new(public_url: &str) -> Result<Self> {
        let refused = |reason: &str| {
            let url = marmota_model::text::excerpt(public_url);
            let message = format!(
                "passkeys cannot be used at the public URL `{url}`: {reason}; use \
                 https://NAME, or http://localhost"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let Some((scheme, rest)) = public_url.split_once("://") else {
            return Err(refused("it has no scheme"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        if authority.contains('@') || authority.starts_with('[') {
            return Err(refused("its host is not a name"));
        }
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (&*authority, None),
        };
        if host.parse::<std::net::IpAddr>().is_ok() {
            return Err(refused("its host is an address"));
        }
        let scheme = scheme.to_ascii_lowercase();
        let is_local = host == "localhost" || host.ends_with(".localhost");
        if scheme != "https" && !(scheme == "http" && is_local) {
            return Err(refused("browsers need https"));
        }
        let domain = AsciiDomain::try_from(host.to_owned())
            .map_err(|_| refused("its host is not a name"))?;
        // An origin has no default port.
        let port = port.filter(|port| (scheme.as_str(), *port) != ("https", "443"));
        let port = port.filter(|port| (scheme.as_str(), *port) != ("http", "80"));
        let origin = match port {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        Ok(Self { rp_id: RpId::Domain(domain), origin })
    }

    fn origins(&self) -> &[String] {
        std::slice::from_ref(&self.origin)
    }
}

impl PasskeyProtocol for WebAuthn {
    fn begin_registration(&self, user: &PasskeyUser<'_>) -> Result<PasskeyRequest> {
        let id = UserHandle64::decode(user.handle).map_err(|_| bug("the handle of a user"))?;
        // The library takes names by the rules of RFC 8265, which are stricter than those for users.
        let name = Username::try_from(user.name).or_else(|_| Username::try_from("user"));
        let name = name.map_err(|_| bug("the name of a user"))?;
        let entity = PublicKeyCredentialUserEntity { name, id: &id, display_name: None };
        let known = user.credentials.iter().filter_map(|id| descriptor(id)).collect();
        let mut options = PublicKeyCredentialCreationOptions::passkey(&self.rp_id, entity, known);
        // Many authenticators do not know the extension, and browsers refuse them if it is enforced. The
        // person is verified at each use anyway.
        options.extensions.cred_protect =
            CredProtect::UserVerificationRequired(ExtensionInfo::AllowDontEnforceValue);
        let (server, client) = options.start_ceremony().map_err(|error| failed(&error))?;
        request(&client, server.encode().map_err(|error| failed(&error))?)
    }

    fn finish_registration(&self, state: &[u8], answer: &str) -> Result<NewPasskey> {
        let state = RegistrationServerState::<HANDLE_BYTES>::decode(state)
            .map_err(|_| bug("the state of a registration"))?;
        let answer = Registration::from_json_relaxed(answer.as_bytes()).map_err(|e| refused(&e))?;
        let options = RegistrationVerificationOptions::<String, String> {
            allowed_origins: self.origins(),
            error_on_unsolicited_extensions: false,
            ..RegistrationVerificationOptions::default()
        };
        let made = state.verify(&self.rp_id, &answer, &options).map_err(|error| refused(&error))?;
        let mut handle = [0; HANDLE_BYTES];
        handle.copy_from_slice(made.user_id().as_ref());
        let Ok(key) = made.static_state().encode();
        let Ok(state) = made.dynamic_state().encode();
        Ok(NewPasskey {
            credential: URL_SAFE_NO_PAD.encode(made.id()),
            handle,
            key,
            state: state.to_vec(),
        })
    }

    fn begin_assertion(&self) -> Result<PasskeyRequest> {
        let options = DiscoverableCredentialRequestOptions::passkey(&self.rp_id);
        let (server, client) = options.start_ceremony().map_err(|error| failed(&error))?;
        request(&client, server.encode().map_err(|error| failed(&error))?)
    }

    fn finish_assertion(
        &self,
        state: &[u8],
        answer: &str,
        passkey: &NewPasskey,
    ) -> Result<Vec<u8>> {
        let state = DiscoverableAuthenticationServerState::decode(state)
            .map_err(|_| bug("the state of a challenge"))?;
        let answer = DiscoverableAuthentication64::from_json_relaxed(answer.as_bytes())
            .map_err(|error| refused(&error))?;
        let id = URL_SAFE_NO_PAD.decode(&passkey.credential).map_err(|_| bug("a credential"))?;
        let id = CredentialId::<Vec<u8>>::decode(id).map_err(|_| bug("a credential"))?;
        let handle = UserHandle64::decode(passkey.handle).map_err(|_| bug("a handle"))?;
        let fixed = Decode::decode(&*passkey.key).map_err(|_| bug("the key of a passkey"))?;
        let changing = passkey.state.as_slice().try_into().ok();
        let changing = changing.and_then(|state| DynamicState::decode(state).ok());
        let changing = changing.ok_or_else(|| bug("the state of a passkey"))?;
        let mut known = AuthenticatedCredential::<
            HANDLE_BYTES,
            webauthn_rp::response::register::CompressedPubKey<
                [u8; 32],
                [u8; 32],
                [u8; 48],
                Vec<u8>,
            >,
        >::new((&id).into(), &handle, fixed, changing)
        .map_err(|error| refused(&error))?;
        let options = AuthenticationVerificationOptions::<String, String> {
            allowed_origins: self.origins(),
            error_on_unsolicited_extensions: false,
            ..AuthenticationVerificationOptions::default()
        };
        state
            .verify(&self.rp_id, &answer, &mut known, &options)
            .map_err(|error| refused(&error))?;
        let Ok(state) = known.dynamic_state().encode();
        Ok(state.to_vec())
    }
}

/// Returns the description of a credential that an authenticator may not make again.
fn descriptor(id: &str) -> Option<PublicKeyCredentialDescriptor<Vec<u8>>> {
    let id = CredentialId::<Vec<u8>>::decode(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    // Browsers try all transports then.
    let transports = AuthTransports::decode(0).ok()?;
    Some(PublicKeyCredentialDescriptor { id, transports })
}

fn request(client: &impl Serialize, state: Vec<u8>) -> Result<PasskeyRequest> {
    let options = serde_json::to_value(client).map_err(|error| failed(&error))?;
    Ok(PasskeyRequest { options, state })
}

/// The error for an answer that is not accepted.
fn refused(reason: &impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unauthenticated, format!("the passkey was refused: {reason}"))
}

fn failed(reason: &impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Bug, format!("the options of a passkey cannot be made: {reason}"))
}

fn bug(of: &str) -> Error {
    Error::new(ErrorKind::Bug, format!("{of} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_that_of_the_public_url() {
        for (url, origin) in [
            ("https://shop.example.org", "https://shop.example.org"),
            ("https://Shop.Example.org:443/account", "https://shop.example.org"),
            ("https://shop.example.org:8443", "https://shop.example.org:8443"),
            ("http://localhost:8080", "http://localhost:8080"),
        ] {
            assert_eq!(WebAuthn::new(url).unwrap().origin, origin);
        }
        for url in [
            "shop.example.org",
            "http://shop.example.org",
            "https://192.0.2.1",
            "https://[2001:db8::1]",
            "https://user@shop.example.org",
            "https://",
        ] {
            let error = WebAuthn::new(url).unwrap_err();
            assert!(error.message().contains("public URL"), "{url}: {error}");
        }
    }
}
