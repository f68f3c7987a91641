//! The public keys of an issuer (JWKS, RFC 7517): fetched when they are needed, and kept.
//!
//! A token with a key that is not known fetches them again, because issuers rotate their keys; at most
//! once in 30 seconds, so that tokens with made-up keys cause no requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use marmota_model::Result;
use parking_lot::Mutex;

use crate::http_client::{HttpClient, failed};

/// The time after which the keys are fetched again, so that a revoked one is noticed.
const AGE_MAX: Duration = Duration::from_secs(3600);
/// The minimum time between two requests.
const PAUSE: Duration = Duration::from_secs(30);
/// The maximum number of keys of an issuer.
const KEYS_MAX: usize = 100;

/// The keys of an issuer, and when they were fetched.
pub(crate) struct KeySet {
    state: Mutex<State>,
    /// One request at a time.
    fetching: Mutex<()>,
    pause: Duration,
}

#[derive(Default)]
struct State {
    keys: Option<(Arc<JwkSet>, Instant)>,
    tried: Option<Instant>,
}

/// A key for a token.
pub(crate) enum KeyFor {
    Known(DecodingKey),
    /// The keys have to be fetched first.
    Fetch,
    /// The issuer has no such key.
    Unknown,
}

impl KeySet {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), fetching: Mutex::new(()), pause: PAUSE }
    }

    /// Returns the key of a token with this head; does not block.
    pub(crate) fn key(&self, head: &Header) -> KeyFor {
        let state = self.state.lock();
        let may_fetch = state.tried.is_none_or(|tried| tried.elapsed() >= self.pause);
        let Some((keys, at)) = &state.keys else {
            return if may_fetch { KeyFor::Fetch } else { KeyFor::Unknown };
        };
        if at.elapsed() >= AGE_MAX && may_fetch {
            return KeyFor::Fetch;
        }
        let key = keys.keys.iter().find(|key| suits(key, head));
        match key.and_then(|key| DecodingKey::from_jwk(key).ok()) {
            Some(key) => KeyFor::Known(key),
            None if may_fetch => KeyFor::Fetch,
            None => KeyFor::Unknown,
        }
    }

    /// Fetches the keys, unless another thread has just done so. May block.
    ///
    /// # Errors
    /// Those of the connection. The keys that were known stay.
    pub(crate) fn fetch(&self, client: &HttpClient, url: &str) -> Result<()> {
        let asked = Instant::now();
        let _one = self.fetching.lock();
        {
            let mut state = self.state.lock();
            if state.tried.is_some_and(|tried| tried >= asked || tried.elapsed() < self.pause) {
                return Ok(());
            }
            state.tried = Some(Instant::now());
        }
        let document = client.get(url, None)?;
        let mut keys: JwkSet = serde_json::from_value(document)
            .map_err(|error| failed(url, &format!("its keys are not valid: {error}")))?;
        keys.keys.truncate(KEYS_MAX);
        self.state.lock().keys = Some((Arc::new(keys), Instant::now()));
        Ok(())
    }

    /// Sets the minimum time between two requests, for tests.
    #[cfg(test)]
    pub(crate) fn with_pause(pause: Duration) -> Self {
        Self { pause, ..Self::new() }
    }
}

/// Returns true if a key may have signed a token.
fn suits(key: &Jwk, head: &Header) -> bool {
    let common = &key.common;
    let is_it = match &head.kid {
        Some(id) => common.key_id.as_ref() == Some(id),
        None => true,
    };
    let signs = common.public_key_use.as_ref().is_none_or(|what| *what == PublicKeyUse::Signature);
    let of_algorithm = common.key_algorithm.is_none_or(|is| is.to_string() == name(head.alg));
    let family = DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == head.alg.family());
    is_it && signs && of_algorithm && family
}

/// Returns the name of an algorithm, as in keys and tokens.
pub(crate) const fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::RS256 => "RS256",
        Algorithm::ES256 => "ES256",
        Algorithm::EdDSA => "EdDSA",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers each request with the next set of keys.
    fn server(sets: Vec<String>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (stream, body) in listener.incoming().zip(sets) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let length = body.len();
                let head = "HTTP/1.1 200 OK\r\nconnection: close";
                write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            }
        });
        url
    }

    fn set(id: &str) -> String {
        let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{x}"}}]}}"#)
    }

    fn head(id: &str) -> Header {
        Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::EdDSA) }
    }

    #[test]
    fn keys_are_rotated_and_a_failure_keeps_them() {
        let url = server(vec![set("old"), set("new"), "not JSON".to_owned()]);
        let (keys, client) = (KeySet::with_pause(Duration::ZERO), HttpClient::new());
        assert!(matches!(keys.key(&head("old")), KeyFor::Fetch));
        keys.fetch(&client, &url).unwrap();
        assert!(matches!(keys.key(&head("old")), KeyFor::Known(_)));
        // The issuer has a new key, and the old one is not accepted any more.
        assert!(matches!(keys.key(&head("new")), KeyFor::Fetch));
        keys.fetch(&client, &url).unwrap();
        assert!(matches!(keys.key(&head("new")), KeyFor::Known(_)));
        assert!(!matches!(keys.key(&head("old")), KeyFor::Known(_)));
        assert!(keys.fetch(&client, &url).is_err());
        assert!(matches!(keys.key(&head("new")), KeyFor::Known(_)));
    }

    #[test]
    fn unknown_keys_are_not_fetched_without_a_pause() {
        let url = server(vec![set("one")]);
        let (keys, client) = (KeySet::new(), HttpClient::new());
        keys.fetch(&client, &url).unwrap();
        assert!(matches!(keys.key(&head("made-up")), KeyFor::Unknown));
        // A key for another algorithm is not this token's.
        let confused = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::ES256) };
        assert!(!matches!(keys.key(&confused), KeyFor::Known(_)));
        keys.fetch(&client, &url).unwrap();
    }
}
