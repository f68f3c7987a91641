//! Authentication: users and groups in a store, passwords, sessions, keys and one-time tokens, and
//! the store for each caller, limited to the caller's rights ([`marmota_store::rights`]).
//!
//! It is independent of HTTP: the transport passes in the credentials.
//!
//! ```
//! use marmota_auth::{Auth, Settings};
//! use marmota_model::{Field, Kind, Role, Schema};
//! use marmota_store::rights::{Grant, Right};
//! use marmota_memory::Memory;
//! use marmota_store::Store;
//!
//! let fields =
//!     vec![Field::new("id", Kind::I64).role(Role::Key), Field::new("owner", Kind::I64)];
//! let builder = Store::builder(Memory::new()).schema(Schema::new("note", fields));
//! let store = marmota_auth::models(builder).open()?;
//! let own = Grant::new("note", &Right::ALL).rule("owner = @user.id");
//! let auth = Auth::new(&store, Settings::default().everyone([own]))?;
//!
//! // The first administrator has no password, but a token for setting one.
//! let token = auth.setup_token().unwrap();
//! auth.set_password("admin", token, "correct horse battery", None)?;
//! let session = auth.login("admin", "correct horse battery", None)?;
//! let known = auth.authenticate(&session.token).run()?;
//! known.store().list_records(&store.table("note")?).run()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! # Credentials
//! | credential | begins with | made by | valid for | ends by |
//! |---|---|---|---|---|
//! | a session's token | `ms_` | [`Auth::login`] | 8 hours without use, 30 days at most | [`Auth::logout`] |
//! | a JWT | – | [`Auth::jwt`] | 15 minutes, at most as long as its session | its session |
//! | a key | `mk_` | [`Auth::make_key`] | as given, or without end | [`Auth::revoke_key`] |
//! | a JWT of another issuer | – | [`TokenIssuers`] | as its issuer has set | its end |
//! | a one-time token | `mt_` | [`Auth::add_user`], [`Auth::new_token`] | 24 hours, once | [`Auth::set_password`] |
//!
//! Tokens and keys have 256 random bits; the store keeps their SHA-256 hashes. Passwords are kept
//! as Argon2id (RFC 9106). [`Settings`] changes the times.
//!
//! # From a credential to rights
//! ```text
//!  token ─> cache ── known ────────────────────────────┐
//!             └ unknown, old ─> session or key ─> user ─┴─> Identity ─> Identity::store
//!                                                 │
//!                              everyone + groups + administrator = grants ─> Rights
//! ```
#![forbid(unsafe_code)]

mod account_changes;
mod account_mail;
mod accounts;
mod auth;
mod authenticate;
mod credentials;
mod ids;
mod known;
mod login;
mod models;
mod providers;
mod security_event;
mod self_service;
mod settings;

pub use account_changes::AccountChanges;
pub use account_mail::{AccountMail, AccountMailer, MailKind, PreparedMail, SignUpPolicy};
pub use accounts::{GrantOf, GrantOrigin, KeyInfo, UserAccess};
pub use auth::{Auth, SessionInfo};
pub use authenticate::{Authenticating, StoreOf};
pub use credentials::external::{
    ExternalIdentity, IdentityProviders, ProviderCode, ProviderInfo, ProviderRequest, TokenIssuers,
    TokenUser,
};
pub use credentials::jwt::install_algorithms;
pub use credentials::passkey::{
    HANDLE_BYTES, NewPasskey, PasskeyProtocol, PasskeyRequest, PasskeyUser, SecondProof,
};
#[cfg(feature = "passkeys")]
pub use credentials::web_authn::WebAuthn;
pub use known::{Identity, Proof};
pub use login::{LoggedIn, LoginClient};
pub use models::{ApiKey, Group, LoginSession, RecordedEvent, User, models};
pub use providers::{LinkedAccount, ProviderAnswer, ProviderSignIn, SignInStart};
pub use security_event::{Listener, SecurityEvent};
pub use self_service::{AddedPasskey, InvitationInfo, PasskeyInfo, PersonalData, TotpSetup};
pub use settings::Settings;
