//! The routes for people without an administrator: sign-up, forgotten passwords and mail addresses by links
//! in mails, sessions on other devices, and a person's data. Invitations are those of administrators.
//!
//! A route that sends a mail answers 202, whether the address has an account or not. The token of the link
//! is the body of another route.

use marmota_auth::SignUpPolicy;
use marmota_http::Method;
use marmota_model::{Error, ErrorKind, Field, Result as ModelResult, Role, Table};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::account_request::{AccountRequest, Reply, Route, proof};
use crate::documents::schema_document::{of_field, shown_fields};

pub(super) const ROUTES: [(Method, &str, Route); 16] = [
    (Method::Get, "/options", options),
    (Method::Post, "/sign-up", sign_up),
    (Method::Post, "/join", join),
    (Method::Post, "/reset", reset),
    (Method::Post, "/reset-password", reset_password),
    (Method::Post, "/login-link", login_link),
    (Method::Post, "/login-with-link", login_with_link),
    (Method::Post, "/email", email),
    (Method::Post, "/confirm-email", confirm_email),
    (Method::Delete, "/sessions/{named}", revoke_session),
    (Method::Get, "/data", data),
    (Method::Post, "/delete-account", delete_account),
    (Method::Get, "/invitations", invitations),
    (Method::Post, "/invitations", invite),
    (Method::Delete, "/invitations/{named}", revoke_invitation),
    (Method::Post, "/step-up", step_up),
];

/// The body of a route that sends a mail.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Address {
    email: String,
}

/// Describes the fields that a new user can fill in, for a form.
fn profile_document(table: &Table) -> Value {
    let is_entered = |field: &Field| field.name != "user" && field.role == Role::Plain;
    let fields = shown_fields(table).filter(|(_, field)| is_entered(field));
    let fields: Vec<Value> = fields.map(|(at, field)| of_field(table, at, field)).collect();
    json!({ "table": table.name(), "key": table.fields()[table.key()].name, "fields": fields })
}

/// `GET /options`: returns what a page for logins can offer.
fn options(asked: &AccountRequest) -> ModelResult<Reply> {
    let policy = asked.auth.sign_up_policy();
    let domains = match policy {
        SignUpPolicy::Domains(domains) => domains.as_slice(),
        _ => &[],
    };
    Ok(Reply::with(json!({
        "sign_up": policy.name(),
        "domains": domains,
        "mails": asked.auth.sends_mails(),
        "login_links": asked.auth.has_login_links(),
        "passkeys": asked.auth.has_passkeys(),
        "profile": asked.auth.profile_form().map(|table| profile_document(table)),
        "providers": asked.auth.offered_providers(),
    })))
}

/// `POST /sign-up`: sends a mail with a link that makes an account.
///
/// # Errors
/// 403 if the policy does not permit it, 422 for an invalid address, 429 after too many requests, 501 if
/// the program sends no mails.
fn sign_up(asked: &AccountRequest) -> ModelResult<Reply> {
    let Address { email } = asked.read()?;
    asked.auth.request_sign_up(&email, &asked.languages, asked.address)?;
    Ok(Reply::accepted())
}

/// `POST /join`: makes the account of a link, for the address that the link was sent to. `profile` has the
/// values of the new user's row in the table of profiles. Answers 201 with the id of the user, who then logs
/// in.
fn join(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Join {
        token: String,
        /// The login name; the address if missing.
        name: Option<String>,
        password: String,
        profile: Option<Box<RawValue>>,
    }
    let Join { token, name, password, profile } = asked.read()?;
    let profile = profile.as_deref().map(RawValue::get);
    let (name, from) = (name.as_deref(), asked.address);
    let user = asked.auth.join_with_profile(&token, name, &password, profile, from)?;
    Ok(Reply::created(json!({ "user": user })))
}

/// `POST /reset`: sends a mail with a link that sets a new password.
fn reset(asked: &AccountRequest) -> ModelResult<Reply> {
    let Address { email } = asked.read()?;
    asked.auth.request_reset(&email, &asked.languages, asked.address)?;
    Ok(Reply::accepted())
}

/// `POST /reset-password`: sets a new password with the token of a link, and ends the user's sessions.
fn reset_password(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Reset {
        token: String,
        password: String,
    }
    let Reset { token, password } = asked.read()?;
    asked.auth.reset_password(&token, &password, asked.address)?;
    Ok(Reply::done())
}

/// `POST /login-link`: sends a mail with a link that starts a session.
fn login_link(asked: &AccountRequest) -> ModelResult<Reply> {
    let Address { email } = asked.read()?;
    asked.auth.request_login_link(&email, &asked.languages, asked.address)?;
    Ok(Reply::accepted())
}

/// `POST /login-with-link`: starts a session with the token of a link; answers as a login.
fn login_with_link(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Login {
        token: String,
        code: Option<String>,
        passkey: Option<Box<RawValue>>,
        #[serde(default)]
        cookie: bool,
    }
    let Login { token, code, passkey, cookie } = asked.read()?;
    let proof = proof(code.as_deref(), passkey.as_deref());
    let login = asked.auth.login_with_link(&token, proof, asked.client())?;
    Ok(Reply::logged_in(login, cookie))
}

/// `POST /email`: sends a mail to the caller's new address, with a link that confirms it.
fn email(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Change {
        email: String,
        password: String,
    }
    let user = asked.known()?.user();
    let Change { email, password } = asked.read()?;
    asked.auth.request_address(user, &password, &email, &asked.languages, asked.address)?;
    Ok(Reply::accepted())
}

/// `POST /confirm-email`: makes the address of a link the user's.
fn confirm_email(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Confirm {
        token: String,
    }
    let Confirm { token } = asked.read()?;
    asked.auth.confirm_address(&token, asked.address)?;
    Ok(Reply::done())
}

/// `DELETE /sessions/{id}`: ends one of the caller's sessions. Answers 204, or 404 for an id that is not one
/// of these.
fn revoke_session(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.auth.revoke_session(asked.known()?.user(), asked.id()?)?;
    Ok(Reply::done())
}

/// `GET /data`: returns the account of the caller, and the rows that refer to it.
fn data(asked: &AccountRequest) -> ModelResult<Reply> {
    let data = asked.auth.personal_data(asked.known()?.user())?;
    let json = serde_json::to_value(data).map_err(|error| {
        Error::new(ErrorKind::Bug, "the data has no JSON form").with_source(error)
    })?;
    Ok(Reply::with(json))
}

/// `POST /delete-account`: deletes the caller's account and the cookie. Answers 204, or 409 if rows refer to
/// the user without an action of deletes. A passkey replaces the password. A user who has neither sends an
/// empty object, after a sign-in in the last 10 minutes.
fn delete_account(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Delete {
        password: Option<String>,
        code: Option<String>,
        passkey: Option<Box<RawValue>>,
    }
    let known = asked.known()?;
    let Delete { password, code, passkey } = asked.read()?;
    match (password, passkey) {
        (Some(password), passkey) => {
            let proof = proof(code.as_deref(), passkey.as_deref());
            asked.auth.delete_account(known.user(), &password, proof, asked.address)?;
        }
        (None, Some(passkey)) => {
            let (user, answer) = (known.user(), passkey.get());
            asked.auth.delete_account_with_passkey(user, answer, asked.address)?;
        }
        (None, None) => asked.auth.delete_account_without_password(known)?,
    }
    Ok(Reply { cookie: Some(None), ..Reply::done() })
}

/// `GET /invitations`: returns the invitations that were not used, for administrators.
fn invitations(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    Ok(Reply::with(json!({ "invitations": asked.auth.invitations()? })))
}

/// `POST /invitations`: invites a person, for administrators. Answers 201 with the id of the invitation.
fn invite(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Invite {
        email: String,
        #[serde(default)]
        groups: Vec<String>,
        /// The language of the mail. Default: those of the request.
        language: Option<String>,
    }
    asked.administrator()?;
    let Invite { email, groups, language } = asked.read()?;
    let languages = language.as_deref().unwrap_or(&asked.languages);
    let id = asked.auth.invite(&email, &groups, languages)?;
    Ok(Reply::created(json!({ "id": id })))
}

/// `DELETE /invitations/{id}`: revokes an invitation, for administrators.
fn revoke_invitation(asked: &AccountRequest) -> ModelResult<Reply> {
    asked.administrator()?;
    asked.auth.revoke_invitation(asked.id()?)?;
    Ok(Reply::done())
}

/// `POST /step-up`: authenticates the caller again, for tables whose writes need a recent authentication.
/// A passkey alone is sufficient. Answers 204.
///
/// # Errors
/// 401 for a wrong password, code or passkey, 403 for a caller without a session, 429 after too many wrong ones.
fn step_up(asked: &AccountRequest) -> ModelResult<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct StepUp {
        password: Option<String>,
        code: Option<String>,
        passkey: Option<Box<RawValue>>,
    }
    let known = asked.known()?;
    let StepUp { password, code, passkey } = asked.read()?;
    match (password, passkey) {
        (Some(password), passkey) => {
            let proof = proof(code.as_deref(), passkey.as_deref());
            asked.auth.step_up(known, &password, proof, asked.address)?;
        }
        (None, Some(passkey)) => {
            asked.auth.step_up_with_passkey(known, passkey.get(), asked.address)?;
        }
        (None, None) => {
            let message = "the body needs `password` or `passkey`";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(Reply::done())
}
