//! Mails by SMTP, sent by durable jobs: those of accounts, and any other of a program.
//!
//! | type | purpose |
//! |---|---|
//! | [`SmtpSender`] | sends a [`Mail`] to a mail server |
//! | [`Templates`] | the texts of mails, for each language |
//! | [`AccountMails`] | what [`marmota_auth::Settings::mailer`] takes, and the job that sends |
//!
//! ```no_run
//! use marmota_auth::{Auth, Settings, SignUpPolicy};
//! use marmota_jobs::{Jobs, WorkerOptions};
//! use marmota_mail::{AccountMails, SmtpSender, Templates};
//! use marmota_memory::Memory;
//! use marmota_store::Store;
//!
//! let builder = marmota_auth::models(Store::builder(Memory::new()));
//! let store = marmota_jobs::models(builder).open()?;
//! let settings = Settings::default().sign_up(SignUpPolicy::Open).mailer(AccountMails);
//! let auth = Auth::new(&store, settings.account_url("https://shop.example.org/account"))?;
//!
//! let sender = SmtpSender::new("smtps://user:password@mail.example.org", "Shop <shop@example.org>")?;
//! let jobs = AccountMails::register(Jobs::new(&store), &auth, &sender, &Templates::new("Shop"))?;
//! let worker = jobs.start(WorkerOptions::new())?;
//! auth.request_sign_up("ann@example.net", "en", None)?;
//! worker.stop()?;
//! # Ok::<(), marmota_model::Error>(())
//! ```
//!
//! Connections to mail servers use TLS; `smtp://` without TLS is for servers on this machine. Nothing here
//! runs on an event loop: jobs have threads for functions that block.
#![forbid(unsafe_code)]

mod account_mails;
#[cfg(feature = "catcher")]
mod catcher;
mod smtp;
mod templates;

pub use account_mails::{AccountMails, SendAccountMail};
#[cfg(feature = "catcher")]
pub use catcher::{CaughtMail, MailCatcher};
pub use smtp::{Mail, SmtpSender};
pub use templates::{MailText, Templates};
