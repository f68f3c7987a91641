//! Requests of mails. Each does the same work for every address: it counts the request, and stores a mail
//! in a transaction. Whether the address has an account is looked up later.

use std::net::IpAddr;
use std::sync::Arc;

use email_address::EmailAddress;
use marmota_model::{Error, ErrorKind, Json, Result, Timestamp, Violation};
use marmota_store::Transaction;

use crate::account_mail::{AccountMail, AccountMailer, MailKind, SignUpPolicy};
use crate::accounts::check_groups;
use crate::auth::{Auth, after, lower_address, shown};
use crate::ids;
use crate::models::{AccountLink, User};
use crate::security_event::SecurityEvent;

/// The maximum length of a mail address (RFC 5321, 4.5.3.1.3).
const ADDRESS_BYTES_MAX: usize = 254;
/// The maximum length of the list of languages that is stored.
const LANGUAGES_CHARS_MAX: usize = 100;

/// An invitation that was not used yet.
#[derive(Clone, Debug, serde::Serialize)]
pub struct InvitationInfo {
    /// The primary key.
    pub id: i64,
    /// The mail address.
    pub email: String,
    /// The groups of the new user.
    pub groups: Vec<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its expiry.
    pub ends_at: Timestamp,
}

impl Auth {
    /// Returns who may make an account.
    #[must_use]
    pub fn sign_up_policy(&self) -> &SignUpPolicy {
        &self.0.settings.sign_up
    }

    /// Returns true if mails can be sent ([`crate::Settings::mailer`]).
    #[must_use]
    pub fn sends_mails(&self) -> bool {
        self.0.settings.mailer.is_some()
    }

    /// Returns true if users can log in by a link ([`crate::Settings::login_links`]).
    #[must_use]
    pub fn has_login_links(&self) -> bool {
        self.sends_mails() && self.0.settings.login_links
    }

    /// Requests a mail with a link that makes an account for this address ([`Auth::join`]).
    ///
    /// If the address has an account, the mail has a link for a new password instead. The result does not depend on it. `languages` are
    /// those that the receiver prefers, as in the header `Accept-Language`; `from` is the client's
    /// address, for the limits.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the policy does not permit it, [`ErrorKind::Invalid`] for an invalid
    /// address, [`ErrorKind::Busy`] after too many requests, [`ErrorKind::Unsupported`] without a mailer.
    pub fn request_sign_up(
        &self,
        email: &str,
        languages: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let address = check_address(email)?;
        match &self.0.settings.sign_up {
            policy if policy.permits(&address) => {}
            SignUpPolicy::Domains(domains) => {
                let message =
                    format!("only addresses of these domains can sign up: {}", domains.join(", "));
                return Err(Error::new(ErrorKind::Denied, message));
            }
            _ => {
                let message = "sign-up is closed; ask an administrator for an invitation";
                return Err(Error::new(ErrorKind::Denied, message));
            }
        }
        self.request_mail(MailKind::SignUp, &address, languages, from)
    }

    /// Requests a mail with a link that sets a new password ([`Auth::reset_password`]).
    ///
    /// The result does not depend on whether the address has an account.
    ///
    /// # Errors
    /// As [`Auth::request_sign_up`], without a policy.
    pub fn request_reset(&self, email: &str, languages: &str, from: Option<IpAddr>) -> Result<()> {
        self.request_mail(MailKind::Reset, &check_address(email)?, languages, from)
    }

    /// Requests a mail with a link that starts a session ([`Auth::login_with_link`]).
    ///
    /// The result does not depend on whether the address has an account.
    ///
    /// # Errors
    /// As [`Auth::request_reset`]; [`ErrorKind::Denied`] if [`crate::Settings::login_links`] is off.
    pub fn request_login_link(
        &self,
        email: &str,
        languages: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        if !self.0.settings.login_links {
            return Err(Error::new(ErrorKind::Denied, "logins by a link are not enabled"));
        }
        self.request_mail(MailKind::Login, &check_address(email)?, languages, from)
    }

    /// Requests a mail to a new address of a user, with a link that makes it the user's
    /// ([`Auth::confirm_address`]). The old one is kept until then.
    ///
    /// If the address has an account, no mail is sent. The result does not depend on it.
    ///
    /// # Errors
    /// As [`Auth::request_reset`]; [`ErrorKind::Unauthenticated`] if the password is wrong.
    pub fn request_address(
        &self,
        user: i64,
        password: &str,
        email: &str,
        languages: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let inner = &self.0;
        let address = check_address(email)?;
        let user = inner.store.get::<User>(user).run()?;
        inner.check_password(&user, password, from)?;
        let mail =
            AccountMail { user: Some(user.id), ..new_mail(MailKind::Address, address, languages) };
        self.limit_mail(&mail, from)?;
        self.enqueue_mail(&mail, from)
    }

    /// Invites a person, for administrators: sends a mail with a link that makes an account in these
    /// groups ([`Auth::join`]), for this address only. Returns the id of the invitation.
    ///
    /// If the address has an account, no mail is sent.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the policy is [`SignUpPolicy::Closed`], [`ErrorKind::Invalid`] for an
    /// invalid address or an unknown group, [`ErrorKind::Unsupported`] without a mailer.
    pub fn invite(&self, email: &str, groups: &[String], languages: &str) -> Result<i64> {
        let inner = &self.0;
        let address = check_address(email)?;
        if inner.settings.sign_up == SignUpPolicy::Closed {
            let message = "the policy `closed` permits no invitations; add a user instead, or change \
                           the policy to `invited`";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        check_groups(&inner.store, groups)?;
        let mailer = self.mailer()?;
        let now = inner.now();
        let link = AccountLink {
            id: ids::of_session()?,
            token: None,
            kind: MailKind::Invitation,
            address: address.clone(),
            user: None,
            groups: Json(groups.to_vec()),
            created_at: now,
            ends_at: after(now, inner.settings.invitation_age),
        };
        let mail = AccountMail {
            invitation: Some(link.id),
            ..new_mail(MailKind::Invitation, address.clone(), languages)
        };
        inner.store.transaction(|tx| {
            let earlier = AccountLink::ADDRESS.eq(address.as_str());
            let earlier = earlier.and(AccountLink::KIND.eq(MailKind::Invitation));
            tx.delete_where::<AccountLink>(earlier).run()?;
            tx.insert(&link).run()?;
            mailer.enqueue(tx, &mail)
        })?;
        self.report(&SecurityEvent::Invited { email: shown(&address) });
        Ok(link.id)
    }

    /// Returns the invitations that were not used and have not expired, for administrators.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn invitations(&self) -> Result<Vec<InvitationInfo>> {
        let valid = AccountLink::KIND.eq(MailKind::Invitation);
        let valid = valid.and(AccountLink::ENDS_AT.gt(self.0.now()));
        let rows = self.0.store.list::<AccountLink>().filter(valid).run()?;
        let info = |AccountLink { id, address, groups, created_at, ends_at, .. }: AccountLink| {
            InvitationInfo { id, email: address, groups: groups.0, created_at, ends_at }
        };
        Ok(rows.into_iter().map(info).collect())
    }

    /// Revokes an invitation, for administrators: its link is refused.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such invitation.
    pub fn revoke_invitation(&self, id: i64) -> Result<()> {
        let one = AccountLink::ID.eq(id).and(AccountLink::KIND.eq(MailKind::Invitation));
        match self.0.store.delete_where::<AccountLink>(one).run()? {
            0 => Err(Error::new(ErrorKind::NotFound, "there is no such invitation")),
            _ => {
                self.report(&SecurityEvent::InvitationRevoked { invitation: id });
                Ok(())
            }
        }
    }

    /// Counts a request of an anonymous caller, and stores its mail.
    fn request_mail(
        &self,
        kind: MailKind,
        address: &str,
        languages: &str,
        from: Option<IpAddr>,
    ) -> Result<()> {
        let mail = new_mail(kind, address.to_owned(), languages);
        self.limit_mail(&mail, from)?;
        self.enqueue_mail(&mail, from)
    }

    /// Counts a request; an error if there were too many for the receiver or from the client.
    fn limit_mail(&self, mail: &AccountMail, from: Option<IpAddr>) -> Result<()> {
        let Err(wait) = self.0.mails.begin(&mail.address, from, self.0.now()) else {
            return Ok(());
        };
        self.report(&SecurityEvent::MailLimited { email: shown(&mail.address), address: from });
        let seconds = wait.as_secs().max(1);
        let message = format!("too many mails were requested; try again in {seconds} s");
        Err(Error::new(ErrorKind::Busy, message))
    }

    fn enqueue_mail(&self, mail: &AccountMail, from: Option<IpAddr>) -> Result<()> {
        let mailer = self.mailer()?;
        self.0.store.transaction(|tx| mailer.enqueue(tx, mail))?;
        let (mail, email) = (mail.kind, shown(&mail.address));
        self.report(&SecurityEvent::MailRequested { mail, email, address: from });
        Ok(())
    }

    pub(super) fn mailer(&self) -> Result<&Arc<dyn AccountMailer>> {
        self.0.settings.mailer.as_ref().ok_or_else(|| {
            let message = "this program sends no mails; ask an administrator";
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// Stores a mail without a link, in the transaction of a change.
    pub(super) fn notify(&self, tx: &Transaction, kind: MailKind, address: String) -> Result<()> {
        match &self.0.settings.mailer {
            Some(mailer) => mailer.enqueue(tx, &new_mail(kind, address, "")),
            None => Ok(()),
        }
    }
}

fn new_mail(kind: MailKind, address: String, languages: &str) -> AccountMail {
    let languages = languages.chars().take(LANGUAGES_CHARS_MAX).collect();
    AccountMail { kind, address, languages, user: None, invitation: None }
}

/// Returns an address as it is stored.
fn check_address(email: &str) -> Result<String> {
    let address = lower_address(email);
    if address.len() <= ADDRESS_BYTES_MAX && EmailAddress::is_valid(&address) {
        return Ok(address);
    }
    let message = "must be a mail address, such as ann@example.org";
    Err(Error::invalid(vec![Violation {
        field: "email".to_owned(),
        value: serde_json::Value::from(shown(email)).to_string(),
        rule: "email".to_owned(),
        message: message.to_owned(),
    }]))
}
