//! [`AccountMails`]: mails about accounts as durable jobs.

use std::time::Duration;

use marmota_auth::{AccountMail, AccountMailer, Auth};
use marmota_jobs::{EnqueueJobs as _, Job, JobContext, JobFailure, JobOptions, Jobs};
use marmota_model::{ErrorKind, Result};
use marmota_store::Transaction;
use serde::{Deserialize, Serialize};

use crate::smtp::{Mail, SmtpSender};
use crate::templates::Templates;

/// Mails about accounts, sent by durable jobs of the queue `mail`; see the example of the
/// [crate](crate).
///
/// The store needs the tables of jobs ([`marmota_jobs::models`]). The job contains no token: it makes the
/// link when it sends the mail, so that a copy of the queue gives no access to accounts.
#[derive(Clone, Copy, Debug)]
pub struct AccountMails;

/// The job that sends a mail about an account.
///
/// It has no unique key: whether an equal job is still there would depend on whether the address has an
/// account, and the time of the next request would reveal it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendAccountMail {
    mail: AccountMail,
}

impl Job for SendAccountMail {
    const NAME: &'static str = "marmota.account_mail";

    fn options() -> JobOptions {
        let options = JobOptions::new().queue("mail").retries(8).blocking();
        options.backoff(Duration::from_secs(5), Duration::from_secs(10 * 60))
    }

    async fn run(self, context: JobContext) -> std::result::Result<(), JobFailure> {
        context.no_retry();
        Err(JobFailure::new("register the job by `AccountMails::register`"))
    }
}

impl AccountMailer for AccountMails {
    fn enqueue(&self, transaction: &Transaction, mail: &AccountMail) -> Result<()> {
        transaction.enqueue(&SendAccountMail { mail: mail.clone() }).run().map(drop)
    }
}

impl AccountMails {
    /// Adds the job that sends the mails of `auth` to the functions of a worker.
    ///
    /// # Errors
    /// As [`Jobs::register`].
    pub fn register(
        jobs: Jobs,
        auth: &Auth,
        sender: &SmtpSender,
        templates: &Templates,
    ) -> Result<Jobs> {
        let (auth, sender, templates) = (auth.clone(), sender.clone(), templates.clone());
        jobs.register_with(move |job: SendAccountMail, context| {
            let (auth, sender, templates) = (auth.clone(), sender.clone(), templates.clone());
            async move { send(&auth, &sender, &templates, &job.mail, &context) }
        })
    }
}

/// Prepares and sends a mail. It blocks.
fn send(
    auth: &Auth,
    sender: &SmtpSender,
    templates: &Templates,
    mail: &AccountMail,
    context: &JobContext,
) -> std::result::Result<(), JobFailure> {
    let Some(prepared) = auth.prepare_mail(mail)? else { return Ok(()) };
    let sent = templates
        .account_mail(&prepared)
        .and_then(|text| sender.send(&Mail { to: prepared.address.clone(), text }));
    let Err(error) = sent else { return Ok(()) };
    auth.withdraw_mail(&prepared)?;
    if error.kind() == ErrorKind::Invalid {
        context.no_retry();
    }
    log::warn!("a mail of the kind {} was not sent: {error}", prepared.kind.name());
    Err(error.into())
}
