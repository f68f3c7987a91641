//! An authenticator in software, which makes passkeys and signs as a browser would have it do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

pub(crate) const ORIGIN: &str = "https://shop.example.org";
const HOST: &str = "shop.example.org";
/// User present, user verified (WebAuthn, 6.1).
const VERIFIED: u8 = 0x05;
/// The data has a new credential.
const ATTESTED: u8 = 0x40;

pub(crate) struct Authenticator {
    key: EcdsaKeyPair,
    id: [u8; 16],
    pub(crate) handle: String,
    pub(crate) origin: &'static str,
    pub(crate) counter: u32,
    pub(crate) flags: u8,
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random);
        let id = ring::rand::generate(&random).unwrap().expose();
        let handle = String::new();
        Self { key: key.unwrap(), id, handle, origin: ORIGIN, counter: 1, flags: VERIFIED }
    }

    fn client_data(&self, purpose: &str, options: &Value) -> String {
        json!({
            "type": purpose, "challenge": options["challenge"], "origin": self.origin,
            "crossOrigin": false,
        })
        .to_string()
    }

    fn data(&self, more: u8) -> Vec<u8> {
        let mut data = digest(&SHA256, HOST.as_bytes()).as_ref().to_vec();
        data.push(self.flags | more);
        data.extend(self.counter.to_be_bytes());
        data
    }

    /// Makes the passkey, as `navigator.credentials.create` does.
    pub(crate) fn create(&mut self, options: &Value) -> String {
        self.handle = options["user"]["id"].as_str().unwrap().to_owned();
        let mut data = self.data(ATTESTED);
        data.extend([0; 16]);
        data.extend([0, 16]);
        data.extend(self.id);
        // A key of COSE (RFC 9053): EC2, ES256, P-256, x, y.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(x);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(y);
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".to_vec();
        object.push(data.len().try_into().unwrap());
        object.extend(data);
        json!({
            "id": encoded(self.id), "rawId": encoded(self.id), "type": "public-key",
            "authenticatorAttachment": "platform", "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encoded(self.client_data("webauthn.create", options)),
                "attestationObject": encoded(object), "transports": ["internal"],
            },
        })
        .to_string()
    }

    /// Signs, as `navigator.credentials.get` does. The counter increases.
    pub(crate) fn sign(&mut self, options: &Value) -> Value {
        self.counter += 1;
        let (client, data) = (self.client_data("webauthn.get", options), self.data(0));
        let mut signed = data.clone();
        signed.extend(digest(&SHA256, client.as_bytes()).as_ref());
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        json!({
            "id": encoded(self.id), "rawId": encoded(self.id), "type": "public-key",
            "authenticatorAttachment": "platform", "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encoded(client), "authenticatorData": encoded(data),
                "signature": encoded(signature), "userHandle": self.handle,
            },
        })
    }
}
