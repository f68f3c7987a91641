//! The links of mails, made when a mail is sent: only then is it looked up whether the address has an
//! account, and no token is ever stored in clear.

use std::time::Duration;

use marmota_model::{Json, Result};

use crate::account_mail::{AccountMail, MailKind, PreparedMail};
use crate::auth::{Auth, TOKEN_PREFIX, after, shown};
use crate::credentials::token::{self, TokenHash};
use crate::ids;
use crate::models::{AccountLink, User};
use crate::security_event::SecurityEvent;

/// The maximum number of links for an address that are valid at the same time.
const LINKS_MAX: u64 = 10;
/// The duration of a link that starts a session.
const LOGIN_LINK_AGE: Duration = Duration::from_secs(15 * 60);

impl Auth {
    /// Makes the link of a mail that was requested. Returns `None` if no mail is to be sent: the address
    /// has no account, an invitation was revoked, or too many links for the address are valid.
    ///
    /// It blocks, and is for what sends mails ([`crate::AccountMailer`]). If the mail cannot be sent,
    /// call [`Auth::withdraw_mail`]; a later attempt prepares it again.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn prepare_mail(&self, mail: &AccountMail) -> Result<Option<PreparedMail>> {
        let inner = &self.0;
        let now = inner.now();
        let store = &inner.store;
        store.delete_where::<AccountLink>(AccountLink::ENDS_AT.le(now)).run()?;
        let owner = inner.user_of_address(&mail.address)?;
        let is_active = |user: &User| !user.is_disabled;
        let (kind, user) = match (mail.kind, owner) {
            (MailKind::SignUp, Some(user)) if is_active(&user) => {
                (MailKind::AccountExists, Some(user))
            }
            (MailKind::SignUp, None) if inner.settings.sign_up.permits(&mail.address) => {
                (MailKind::SignUp, None)
            }
            (MailKind::Invitation, None) => (MailKind::Invitation, None),
            (MailKind::Reset | MailKind::Login, Some(user)) if is_active(&user) => {
                (mail.kind, Some(user))
            }
            (MailKind::Address, None) => {
                let user = mail.user.map(|user| store.get::<User>(user).optional().run());
                match user.transpose()?.flatten().filter(is_active) {
                    Some(user) => (MailKind::Address, Some(user)),
                    None => return Ok(None),
                }
            }
            (MailKind::AddressChanged, None) => (MailKind::AddressChanged, None),
            _ => return Ok(None),
        };
        let name = user.as_ref().map_or_else(|| mail.address.clone(), |user| user.name.clone());
        let mut prepared = PreparedMail {
            kind,
            address: mail.address.clone(),
            languages: mail.languages.clone(),
            name,
            url: None,
            ends_at: None,
            minutes: 0,
            link: None,
        };
        let Some(page) = kind.page() else { return Ok(Some(prepared)) };
        let token = token::new(TOKEN_PREFIX)?;
        let hash = TokenHash::of(&token).text();
        let age = match kind {
            MailKind::Invitation => inner.settings.invitation_age,
            MailKind::Login => inner.settings.link_age.min(LOGIN_LINK_AGE),
            _ => inner.settings.link_age,
        };
        let mut ends_at = after(now, age);
        match mail.invitation {
            Some(id) => {
                let Some(link) = store.get::<AccountLink>(id).optional().run()? else {
                    return Ok(None);
                };
                ends_at = link.ends_at;
                store.patch::<AccountLink>(id).set(AccountLink::TOKEN, hash).run()?;
            }
            None => {
                let link = AccountLink {
                    id: ids::of_session()?,
                    token: Some(hash),
                    kind,
                    address: mail.address.clone(),
                    user: user.map(|user| user.id),
                    groups: Json(Vec::new()),
                    created_at: now,
                    ends_at,
                };
                // Several mails may be prepared at the same time.
                let is_stored = store.transaction(|tx| {
                    let of_address = AccountLink::ADDRESS.eq(mail.address.as_str());
                    let is_full = tx.count::<AccountLink>().filter(of_address).run()? >= LINKS_MAX;
                    if !is_full {
                        tx.insert(&link).run()?;
                    }
                    Ok(!is_full)
                })?;
                if !is_stored {
                    let email = shown(&mail.address);
                    self.report(&SecurityEvent::MailLimited { email, address: None });
                    return Ok(None);
                }
                prepared.link = Some(link.id);
            }
        }
        prepared.url = Some(format!("{}#/{page}/{token}", inner.settings.account_url));
        prepared.ends_at = Some(ends_at);
        let left_us = ends_at.micros().saturating_sub(now.micros());
        prepared.minutes = u64::try_from(left_us / 60_000_000).unwrap_or_default();
        Ok(Some(prepared))
    }

    /// Deletes the link of a mail that was not sent.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn withdraw_mail(&self, mail: &PreparedMail) -> Result<()> {
        let Some(link) = mail.link else { return Ok(()) };
        self.0.store.delete_where::<AccountLink>(AccountLink::ID.eq(link)).run().map(drop)
    }
}
