//! Mails about accounts: what is requested, who may sign up, and the interface of what sends mails.
//!
//! A request stores an [`AccountMail`], in its transaction. It has no token and does not depend on whether
//! the address has an account, so neither the answer nor its time reveal that. What sends the mail calls
//! [`Auth::prepare_mail`](crate::Auth::prepare_mail) first, which makes the token.

use marmota_derive::ModelEnum;
use marmota_model::{Result, Timestamp};
use marmota_store::Transaction;
use serde::{Deserialize, Serialize};

/// The subject of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ModelEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[model(integer)]
#[non_exhaustive]
pub enum MailKind {
    /// A link that makes an account for the address.
    SignUp = 0,
    /// A link that makes an account for a person whom an administrator has invited.
    Invitation = 1,
    /// A link that sets a new password.
    Reset = 2,
    /// A link that makes the address the user's.
    Address = 3,
    /// A link that starts a session.
    Login = 4,
    /// For a person who signs up with an address that has an account: a link that sets a new password.
    AccountExists = 5,
    /// For the address that a user had before: the user has another one now.
    AddressChanged = 6,
}

impl MailKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::SignUp,
        Self::Invitation,
        Self::Reset,
        Self::Address,
        Self::Login,
        Self::AccountExists,
        Self::AddressChanged,
    ];

    /// Returns the name of the mail's templates.
    ///
    /// ```
    /// assert_eq!(marmota_auth::MailKind::SignUp.name(), "sign-up");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SignUp => "sign-up",
            Self::Invitation => "invitation",
            Self::Reset => "reset",
            Self::Address => "address",
            Self::Login => "login",
            Self::AccountExists => "account-exists",
            Self::AddressChanged => "address-changed",
        }
    }

    /// Returns the page that the link in the mail opens.
    pub(crate) const fn page(self) -> Option<&'static str> {
        match self {
            Self::SignUp | Self::Invitation => Some("join"),
            Self::Reset | Self::AccountExists => Some("reset-password"),
            Self::Address => Some("confirm-address"),
            Self::Login => Some("login-link"),
            Self::AddressChanged => None,
        }
    }
}

/// A mail that was requested. It contains no secret, so that it can be stored in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AccountMail {
    /// The subject.
    pub kind: MailKind,
    /// The receiver, in lower case.
    pub address: String,
    /// The languages that the receiver prefers, as in the header `Accept-Language`.
    pub languages: String,
    /// The user, for a change of the address.
    pub user: Option<i64>,
    /// The invitation.
    pub invitation: Option<i64>,
}

/// A mail with its link, to be sent now ([`Auth::prepare_mail`](crate::Auth::prepare_mail)).
///
/// `Debug` does not show the link, which has a token.
#[derive(Clone)]
#[non_exhaustive]
pub struct PreparedMail {
    /// The subject.
    pub kind: MailKind,
    /// The receiver.
    pub address: String,
    /// The languages that the receiver prefers, as in the header `Accept-Language`.
    pub languages: String,
    /// The name of the user; the address for a person without an account.
    pub name: String,
    /// The address of the page that uses the token; `None` for a mail without a link.
    pub url: Option<String>,
    /// The end of the link.
    pub ends_at: Option<Timestamp>,
    /// The time until then, in minutes.
    pub minutes: u64,
    pub(crate) link: Option<i64>,
}

impl std::fmt::Debug for PreparedMail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PreparedMail({} to {})", self.kind.name(), self.address)
    }
}

/// Sends mails about accounts ([`crate::Settings::mailer`]).
///
/// `marmota_mail` has one that sends by SMTP, in durable jobs.
pub trait AccountMailer: Send + Sync {
    /// Stores a mail to be sent later, in the transaction of a change. It exists exactly if that is
    /// committed.
    ///
    /// # Errors
    /// Errors of the store.
    fn enqueue(&self, transaction: &Transaction, mail: &AccountMail) -> Result<()>;
}

/// Who may make an account ([`crate::Settings::sign_up`]).
///
/// | policy | on the page | as an option |
/// |---|---|---|
/// | closed | only administrators add users | `closed` |
/// | invited | persons whom an administrator has invited | `invited` |
/// | domains | the same, and persons with an address of these domains | `domains:example.org,example.net` |
/// | open | everyone with a mail address | `open` |
///
/// ```
/// use marmota_auth::SignUpPolicy;
/// let policy: SignUpPolicy = "domains:example.org".parse()?;
/// assert!(policy.permits("ann@example.org") && !policy.permits("ann@example.org.evil.net"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SignUpPolicy {
    /// Only administrators add users.
    #[default]
    Closed,
    /// Persons whom an administrator has invited.
    Invited,
    /// The same, and persons with an address of one of these domains, in lower case.
    Domains(Vec<String>),
    /// Everyone with a mail address.
    Open,
}

impl SignUpPolicy {
    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Invited => "invited",
            Self::Domains(_) => "domains",
            Self::Open => "open",
        }
    }

    /// Returns true if a person with this address may sign up without an invitation.
    #[must_use]
    pub fn permits(&self, address: &str) -> bool {
        match self {
            Self::Closed | Self::Invited => false,
            Self::Open => true,
            Self::Domains(domains) => {
                let domain = address.rsplit_once('@').map(|(_, domain)| domain.to_lowercase());
                domain.is_some_and(|domain| domains.contains(&domain))
            }
        }
    }
}

impl std::str::FromStr for SignUpPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "closed" => Ok(Self::Closed),
            "invited" => Ok(Self::Invited),
            "open" => Ok(Self::Open),
            _ => {
                let domains = text.strip_prefix("domains:").map(|names| {
                    let names = names.split(',').map(|name| name.trim().to_lowercase());
                    names.filter(|name| !name.is_empty()).collect::<Vec<_>>()
                });
                domains
                    .filter(|names| !names.is_empty())
                    .map(Self::Domains)
                    .ok_or_else(|| "must be closed, invited, open, or domains:NAME,NAME".to_owned())
            }
        }
    }
}
