//! The login at a server: authentication, and what the server reports of itself (PostgreSQL's manual,
//! "Message Flow", "Start-up").

use marmota_model::ErrorKind;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use super::CancelKey;
use super::no_connection::NoConnection;
use crate::fault::Failure;
use crate::options::{Password, PostgresOptions};
use crate::wire::backend::BackendMessage;
use crate::wire::frontend;

/// The types of authentication messages.
mod auth_message {
    pub(super) const DONE: i32 = 0;
    pub(super) const PASSWORD: i32 = 3;
    pub(super) const MD5: i32 = 5;
    pub(super) const SASL: i32 = 10;
    pub(super) const SASL_GOES_ON: i32 = 11;
    pub(super) const SASL_ENDS: i32 = 12;
}

/// The login: the phase before the first query.
pub(super) struct Login<'o> {
    options: &'o PostgresOptions,
    /// The number of the server.
    server: usize,
    scram: Option<ScramSha256>,
    pub(super) key: Option<CancelKey>,
    /// True for a standby, false for a primary, if the server reports it.
    pub(super) is_standby: Option<bool>,
}

impl<'o> Login<'o> {
    pub(super) const fn new(options: &'o PostgresOptions, server: usize) -> Self {
        Self { options, server, scram: None, key: None, is_standby: None }
    }

    /// Processes a message and writes the reply to it. Returns true when the login is complete.
    pub(super) fn hear(
        &mut self,
        message: BackendMessage<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, NoConnection> {
        match message {
            BackendMessage::Authentication(ask, body) => self.prove(ask, body, out).map(|()| false),
            BackendMessage::ErrorResponse(notice) => Err(self.turned_away(&Failure::new(notice))),
            BackendMessage::BackendKeyData(process, secret) => {
                self.key = Some(CancelKey { server: self.server, process, secret: secret.into() });
                Ok(false)
            }
            BackendMessage::ParameterStatus(status) => {
                if status.name == b"in_hot_standby" {
                    self.is_standby = Some(status.value == b"on");
                }
                Ok(false)
            }
            BackendMessage::ReadyForQuery(_) => Ok(true),
            _ => Ok(false),
        }
    }

    fn prove(&mut self, ask: i32, body: &[u8], out: &mut Vec<u8>) -> Result<(), NoConnection> {
        match ask {
            auth_message::DONE => {}
            auth_message::PASSWORD => frontend::password(out, self.password()?.as_str().as_bytes()),
            auth_message::MD5 => {
                let salt = body
                    .first_chunk()
                    .ok_or_else(|| self.refused("the server did not send a salt"))?;
                let (user, password) = (self.options.user.as_bytes(), self.password()?);
                let hash = md5_hash(user, password.as_str().as_bytes(), *salt);
                frontend::password(out, hash.as_bytes());
            }
            auth_message::SASL => {
                if !body.split(|&byte| byte == 0).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(self
                        .refused("the server requires a SASL mechanism other than SCRAM-SHA-256"));
                }
                let password = self.password()?.as_str().as_bytes();
                let scram = ScramSha256::new(password, ChannelBinding::unsupported());
                frontend::sasl_initial(out, SCRAM_SHA_256, scram.message());
                self.scram = Some(scram);
            }
            auth_message::SASL_GOES_ON | auth_message::SASL_ENDS => {
                let Some(scram) = &mut self.scram else {
                    return Err(
                        self.refused("the server continued an authentication that was not started")
                    );
                };
                let heard = if ask == auth_message::SASL_ENDS {
                    scram.finish(body)
                } else {
                    scram.update(body)
                };
                if ask == auth_message::SASL_GOES_ON && heard.is_ok() {
                    frontend::sasl_response(out, scram.message());
                }
                if let Err(error) = heard {
                    return Err(self.refused(&error.to_string()));
                }
            }
            _ => {
                return Err(self.refused(
                    "the server requires an authentication method that Marmota does not support",
                ));
            }
        }
        Ok(())
    }

    fn password(&self) -> Result<&Password, NoConnection> {
        self.options.password.as_ref().ok_or_else(|| {
            self.refused(
                "the server requires a password: give one in the URL, in PGPASSWORD or in ~/.pgpass",
            )
        })
    }

    /// Returns an error for which another attempt is useless.
    fn refused(&self, why: &str) -> NoConnection {
        let message = format!("no connection to PostgreSQL at {}: {why}", self.options.place());
        NoConnection { kind: ErrorKind::Denied, message, is_final: true, is_of_a_pooler: false }
    }

    /// Returns an error with the server's message. 28… means the user, 3D000 the database, 57P03
    /// that the server is starting, 53300 that it has too many connections.
    fn turned_away(&self, failure: &Failure) -> NoConnection {
        let (user, words) = (&self.options.user, &failure.message);
        let (kind, is_final) = match failure.code() {
            code if code.starts_with("28") => (ErrorKind::Denied, true),
            "3D000" | "22023" => (ErrorKind::Invalid, true),
            _ => (ErrorKind::Refused, false),
        };
        let place = self.options.place();
        let message = format!("PostgreSQL at {place} refused the login of {user}: {words}");
        // PgBouncer's message: a server names an unknown setting differently.
        let is_of_a_pooler = words.contains("unsupported startup parameter");
        NoConnection { kind, message, is_final, is_of_a_pooler }
    }
}
