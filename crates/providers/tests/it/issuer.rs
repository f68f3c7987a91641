//! An issuer of OpenID Connect that signs what a test gives it, and a provider of OAuth2.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// A key of the issuer, with its id.
pub(crate) struct Key {
    id: String,
    pair: Ed25519KeyPair,
}

impl Key {
    pub(crate) fn new(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        Self { id: id.to_owned(), pair }
    }

    pub(crate) fn public(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.pair.public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "use": "sig", "x": x })
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let head = json!({ "alg": "EdDSA", "typ": "JWT", "kid": self.id });
        let text = unsigned(&head, claims);
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }
}

/// Returns the first two parts of a token.
pub(crate) fn unsigned(head: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(head), part(claims))
}

#[derive(Default)]
struct State {
    keys: Vec<Value>,
    tokens: VecDeque<Value>,
    person: Value,
    emails: Value,
    forms: Vec<String>,
    paths: Vec<String>,
}

/// The server of an issuer.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Issuer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let serving = Self { url, state };
        let server = serving.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut length = 0;
                loop {
                    let mut header = String::new();
                    reader.read_line(&mut header).unwrap();
                    if header.trim().is_empty() {
                        break;
                    }
                    if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                }
                let mut form = vec![0; length];
                reader.read_exact(&mut form).unwrap();
                let body = server.answer(&path, String::from_utf8(form).unwrap()).to_string();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
                let mut stream = reader.into_inner();
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        });
        serving
    }

    fn answer(&self, path: &str, form: String) -> Value {
        let mut state = self.state.lock().unwrap();
        state.paths.push(path.to_owned());
        match path {
            "/.well-known/openid-configuration" => json!({
                "issuer": self.url,
                "authorization_endpoint": format!("{}/authorize", self.url),
                "token_endpoint": format!("{}/token", self.url),
                "jwks_uri": format!("{}/keys", self.url),
            }),
            "/keys" => json!({ "keys": state.keys }),
            "/user" => state.person.clone(),
            "/emails" => state.emails.clone(),
            _ => {
                state.forms.push(form);
                state.tokens.pop_front().unwrap_or(json!({ "error": "invalid_grant" }))
            }
        }
    }

    /// Replaces the keys.
    pub(crate) fn keys(&self, keys: &[&Key]) {
        self.documents(keys.iter().map(|key| key.public()).collect());
    }

    /// Replaces the keys by these documents.
    pub(crate) fn documents(&self, keys: Vec<Value>) {
        self.state.lock().unwrap().keys = keys;
    }

    /// Sets the answer to the next code.
    pub(crate) fn answers(&self, token: Value) {
        self.state.lock().unwrap().tokens.push_back(token);
    }

    /// Sets the person of the API, and the mail addresses.
    pub(crate) fn person(&self, person: Value, emails: Value) {
        let mut state = self.state.lock().unwrap();
        (state.person, state.emails) = (person, emails);
    }

    /// Returns the last form that was sent with a code.
    pub(crate) fn form(&self) -> String {
        self.state.lock().unwrap().forms.last().cloned().unwrap()
    }

    /// Returns the number of requests of a path.
    pub(crate) fn requests(&self, path: &str) -> usize {
        self.state.lock().unwrap().paths.iter().filter(|one| *one == path).count()
    }
}
