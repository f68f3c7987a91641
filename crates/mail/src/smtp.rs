//! [`SmtpSender`]: the connection to a mail server.

use std::fmt;
use std::time::Duration;

use lettre::message::{Mailbox, MultiPart};
use lettre::{Message, SmtpTransport, Transport};
use marmota_model::{Error, ErrorKind, Result};

use crate::templates::MailText;

/// The time limit of each command to the mail server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A mail: its receiver and its text.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The receiver: `ann@example.org`, or `Ann <ann@example.org>`.
    pub to: String,
    /// The subject and the text.
    pub text: MailText,
}

/// Sends mails by SMTP (RFC 5321). Cheap to clone; all clones share connections.
#[derive(Clone)]
pub struct SmtpSender {
    transport: SmtpTransport,
    from: Mailbox,
}

impl SmtpSender {
    /// Creates a sender; nothing is connected yet.
    ///
    /// `url` names the server, `from` is the sender of all mails: `Shop <shop@example.org>`.
    ///
    /// | URL | connection |
    /// |---|---|
    /// | `smtps://user:password@mail.example.org` | TLS from the start, port 465 |
    /// | `smtp://user:password@mail.example.org:587?tls=required` | STARTTLS, which must succeed |
    /// | `smtp://127.0.0.1:25` | without TLS: only to this machine |
    ///
    /// Reserved characters in the user and the password are percent-encoded.
    ///
    /// ```
    /// use marmota_mail::SmtpSender;
    /// assert!(SmtpSender::new("smtps://mail.example.org", "Shop <shop@example.org>").is_ok());
    /// let error = SmtpSender::new("smtp://mail.example.org", "shop@example.org").unwrap_err();
    /// assert!(error.message().contains("tls=required"));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid URL or sender, and for a server of another machine without
    /// TLS, which would receive the password and the links in clear.
    pub fn new(url: &str, from: &str) -> Result<Self> {
        let from = from.parse().map_err(|error| {
            let from = marmota_model::text::excerpt(from);
            let message = format!(
                "the sender `{from}` is not a mail address, such as `Shop <shop@example.org>`"
            );
            Error::new(ErrorKind::Invalid, message).with_source(error)
        })?;
        // The URL may contain a password, so that it is not part of the message.
        let invalid = |what: &str| {
            let message = format!(
                "the URL of the mail server {what}; it is for example \
                 smtps://user:password@mail.example.org, or \
                 smtp://user:password@mail.example.org:587?tls=required"
            );
            Error::new(ErrorKind::Invalid, message)
        };
        let rest = url.strip_prefix("smtp://");
        if let Some(rest) = rest.filter(|rest| !rest.contains("tls=required")) {
            let host = rest.split(['/', '?']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            if !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
                return Err(invalid("must use TLS (smtps, or tls=required)"));
            }
        }
        let builder = SmtpTransport::from_url(url).map_err(|_| invalid("is not valid"))?;
        Ok(Self { transport: builder.timeout(Some(TIMEOUT)).build(), from })
    }

    /// Sends a mail, and blocks until the server has accepted it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the receiver is not a mail address, or the server refuses the mail for
    /// good: a retry would fail too. [`ErrorKind::Io`] if the server cannot be reached, or refuses the
    /// mail for now.
    pub fn send(&self, mail: &Mail) -> Result<()> {
        let to: Mailbox = mail.to.parse().map_err(|error| {
            let message = format!(
                "the receiver `{}` is not a mail address",
                marmota_model::text::excerpt(&mail.to)
            );
            Error::new(ErrorKind::Invalid, message).with_source(error)
        })?;
        let MailText { subject, plain, html } = mail.text.clone();
        let body = MultiPart::alternative_plain_html(plain, html);
        let message = Message::builder().from(self.from.clone()).to(to).subject(subject);
        let message = message.multipart(body).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the mail is not valid: {error}"))
        })?;
        self.transport.send(&message).map(drop).map_err(|error| {
            let kind = match error.is_permanent() {
                true => ErrorKind::Invalid,
                false => ErrorKind::Io,
            };
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_default();
            Error::new(kind, format!("the mail server did not accept the mail: {error} {cause}"))
        })
    }
}

impl fmt::Debug for SmtpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmtpSender(from {})", self.from)
    }
}
