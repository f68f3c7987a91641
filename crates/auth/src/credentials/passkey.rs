//! The interface between accounts and the protocol of passkeys (WebAuthn Level 3), and the proof of a second
//! factor.
//!
//! Accounts have the users, the challenges that were sent and the keys; [`PasskeyProtocol`] makes the options
//! for a browser and verifies its answers.

use marmota_model::Result;
use serde_json::Value;

/// The number of bytes of the handle by which an authenticator identifies a user.
pub const HANDLE_BYTES: usize = 64;

/// The user for whom a passkey is made.
#[derive(Clone, Copy, Debug)]
pub struct PasskeyUser<'u> {
    /// Random bytes: the authenticator stores no id of this program.
    pub handle: [u8; HANDLE_BYTES],
    /// The login name, which the authenticator shows.
    pub name: &'u str,
    /// The credentials that the user has already, as base64url.
    pub credentials: &'u [String],
}

/// A request to a browser.
#[derive(Clone, Debug)]
pub struct PasskeyRequest {
    /// The options for `navigator.credentials`, in their JSON form. The member `challenge` is the challenge.
    pub options: Value,
    /// What [`PasskeyProtocol`] needs to verify the answer.
    pub state: Vec<u8>,
}

/// A passkey that was verified when it was made.
#[derive(Clone, Debug)]
pub struct NewPasskey {
    /// The id of the credential, as base64url.
    pub credential: String,
    /// The handle of the user.
    pub handle: [u8; HANDLE_BYTES],
    /// The public key.
    pub key: Vec<u8>,
    /// What changes with each use, such as the signature counter.
    pub state: Vec<u8>,
}

/// A protocol of passkeys: `WebAuthn` with the cargo feature `passkeys`.
///
/// Both functions for answers return [`marmota_model::ErrorKind::Unauthenticated`] with the reason if an
/// answer is refused.
pub trait PasskeyProtocol: Send + Sync {
    /// Makes the request for a new passkey.
    ///
    /// # Errors
    /// If the options cannot be made.
    fn begin_registration(&self, user: &PasskeyUser<'_>) -> Result<PasskeyRequest>;

    /// Verifies a new passkey. `answer` is JSON, `RegistrationResponseJSON` of WebAuthn.
    ///
    /// # Errors
    /// If the answer is refused.
    fn finish_registration(&self, state: &[u8], answer: &str) -> Result<NewPasskey>;

    /// Makes the request for a signature by any passkey of this server, with verification of the user.
    ///
    /// # Errors
    /// If the options cannot be made.
    fn begin_assertion(&self) -> Result<PasskeyRequest>;

    /// Verifies a signature, and returns the new state of the passkey. `answer` is JSON,
    /// `AuthenticationResponseJSON` of WebAuthn.
    ///
    /// # Errors
    /// If the answer is refused: its signature, origin, challenge, user or counter is not right.
    fn finish_assertion(&self, state: &[u8], answer: &str, passkey: &NewPasskey)
    -> Result<Vec<u8>>;
}

/// What a user proves a second factor with: a code of an authenticator app, a recovery code, or the answer
/// of a passkey.
///
/// ```
/// use marmota_auth::SecondProof;
/// assert_eq!(SecondProof::from(Some("123456")).code, Some("123456"));
/// ```
#[derive(Clone, Copy, Default)]
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct SecondProof<'p> {
    /// A code of the app, or a recovery code.
    pub code: Option<&'p str>,
    /// The answer of a passkey as JSON, `AuthenticationResponseJSON`.
    pub passkey: Option<&'p str>,
}

impl<'p> From<Option<&'p str>> for SecondProof<'p> {
    fn from(code: Option<&'p str>) -> Self {
        Self { code, passkey: None }
    }
}
