//! The options of `serve` for accounts of the public: who may sign up, and the mails for it.
//!
//! ```text
//! marmota serve --auth --sign-up open --mail-url smtps://user:password@mail.example.org \
//!     --mail-from 'Shop <shop@example.org>' --public-url https://shop.example.org
//! ```
//!
//! Mails are sent by a worker of durable jobs, which runs as long as the server.

#[cfg(feature = "admin")]
use std::path::Path;
use std::path::PathBuf;

use clap::Args;
#[cfg(feature = "admin")]
use marmota_admin::AdminPages;
#[cfg(feature = "passkeys")]
use marmota_auth::WebAuthn;
use marmota_auth::{Auth, Settings, SignUpPolicy};
use marmota_jobs::{Jobs, Worker, WorkerOptions};
use marmota_mail::{AccountMails, SmtpSender, Templates};
#[cfg(feature = "providers")]
use marmota_providers::ProviderFile;
use marmota_store::{Store, StoreBuilder};

/// Options that need `--auth`.
#[derive(Args)]
pub(super) struct AccountOptions {
    /// Who may make an account: closed, invited, open, or domains:NAME,NAME; see the guide,
    /// 47-accounts.md
    #[arg(long, value_name = "POLICY", default_value = "closed")]
    sign_up: SignUpPolicy,
    /// The mail server for links to sign up, to set a password and to change an address:
    /// smtps://USER:PASSWORD@HOST, or smtp://USER:PASSWORD@HOST:587?tls=required
    #[arg(long, value_name = "URL", hide_env_values = true)]
    mail_url: Option<String>,
    /// The sender of mails: Shop <shop@example.org>
    #[arg(long, value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// A folder with the texts of mails and of the pages at /account, by language: en/reset.txt,
    /// fr/account.json
    #[arg(long, value_name = "FOLDER")]
    mail_templates: Option<PathBuf>,
    /// The URL at which people reach this server, for links in mails. Default: the first address in
    /// --listen
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Users can log in by a link in a mail, without a password
    #[arg(long)]
    login_links: bool,
    /// Users can sign in with passkeys. It needs --public-url, whose host passkeys are bound to; see the
    /// guide, 57-passkeys.md
    #[cfg(feature = "passkeys")]
    #[arg(long)]
    passkeys: bool,
    /// A file of providers with which people sign in, and of issuers of tokens, in TOML; their secrets
    /// are in the environment; see the guide, 54-sign-in.md
    #[cfg(feature = "providers")]
    #[arg(long, value_name = "FILE")]
    providers: Option<PathBuf>,
    /// A CSS file for the pages at /account, after their own
    #[cfg(feature = "admin")]
    #[arg(long, value_name = "FILE")]
    account_style: Option<PathBuf>,
}

/// The connection to the mail server, and the texts of mails.
pub(super) struct Mails {
    sender: SmtpSender,
    templates: Templates,
}

impl AccountOptions {
    /// Checks that a server without users has no option for their passkeys.
    #[cfg(feature = "passkeys")]
    pub(super) fn check_without_users(&self) -> Result<(), String> {
        match self.passkeys {
            true => Err("--passkeys is for users: add --auth".into()),
            false => Ok(()),
        }
    }

    /// Returns true if mails are sent.
    pub(super) const fn sends_mails(&self) -> bool {
        self.mail_url.is_some()
    }

    /// Checks the options, and reads the templates.
    pub(super) fn mails(&self, has_accounts: bool, title: &str) -> Result<Option<Mails>, String> {
        let needs_mails = self.sign_up != SignUpPolicy::Closed || self.login_links;
        // People can sign up with a provider.
        #[cfg(feature = "providers")]
        let needs_mails = match self.providers {
            Some(_) => self.login_links,
            None => needs_mails,
        };
        #[cfg(feature = "providers")]
        if !has_accounts && self.providers.is_some() {
            return Err("--providers is for users: add --auth".into());
        }
        if !has_accounts && (needs_mails || self.mail_url.is_some()) {
            return Err("--sign-up, --login-links and --mail-url are for users: add --auth".into());
        }
        let Some(url) = &self.mail_url else {
            return match needs_mails {
                true => {
                    Err("--sign-up and --login-links send mails: add --mail-url and --mail-from, \
                             or in marmota.toml mail_url and mail_from"
                        .into())
                }
                false => Ok(None),
            };
        };
        let Some(from) = &self.mail_from else {
            return Err("--mail-url needs the sender of mails: add --mail-from".into());
        };
        let failed = |error: marmota_model::Error| error.to_string();
        let sender = SmtpSender::new(url, from).map_err(failed)?;
        let templates = match &self.mail_templates {
            Some(folder) => Templates::with_folder(title, folder).map_err(failed)?,
            None => Templates::new(title),
        };
        Ok(Some(Mails { sender, templates }))
    }

    /// Adds these options to the settings of accounts.
    ///
    /// # Errors
    /// For a file of providers that is not valid.
    pub(super) fn add_to(
        &self,
        settings: Settings,
        mails: Option<&Mails>,
        title: &str,
        url: &str,
    ) -> Result<Settings, String> {
        let public = self.public_url.as_deref().unwrap_or(url).trim_end_matches('/');
        let settings = settings
            .sign_up(self.sign_up.clone())
            .title(title)
            .account_url(format!("{public}/account"))
            .login_links(self.login_links);
        let settings = match mails {
            Some(_) => settings.mailer(AccountMails),
            None => settings,
        };
        #[cfg(feature = "passkeys")]
        let settings = match self.passkeys {
            true => settings.passkeys(self.web_authn()?),
            false => settings,
        };
        #[cfg(feature = "providers")]
        let settings = match &self.providers {
            Some(path) => {
                let file = ProviderFile::read(path).map_err(|error| error.to_string())?;
                let settings = match file.has_providers() {
                    true => settings.providers(file.providers()),
                    false => settings,
                };
                match file.has_token_issuers() {
                    true => settings.token_issuers(file.token_issuers()),
                    false => settings,
                }
            }
            None => settings,
        };
        Ok(settings)
    }

    /// Returns the protocol of passkeys for the public URL.
    #[cfg(feature = "passkeys")]
    fn web_authn(&self) -> Result<WebAuthn, String> {
        let Some(url) = &self.public_url else {
            return Err(
                "--passkeys needs the URL at which people reach this server, because passkeys \
                        are bound to its host: add --public-url, or in marmota.toml public_url"
                    .into(),
            );
        };
        WebAuthn::new(url).map_err(|error| format!("--public-url: {error}"))
    }

    /// Adds the style and the texts of the application to the pages at `/account`.
    #[cfg(feature = "admin")]
    pub(super) fn pages(&self, pages: AdminPages) -> Result<AdminPages, String> {
        let pages = match &self.account_style {
            Some(path) => pages.account_style(std::fs::read_to_string(path).map_err(|error| {
                format!("cannot read the style in {}: {error}", path.display())
            })?),
            None => pages,
        };
        let Some(folder) = &self.mail_templates else { return Ok(pages) };
        let unreadable = |path: &Path, error: std::io::Error| {
            format!("cannot read the texts in {}: {error}", path.display())
        };
        let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
        let languages: std::io::Result<Vec<_>> = entries.collect();
        let languages = languages.map_err(|error| unreadable(folder, error))?;
        languages.iter().try_fold(pages, |pages, language| {
            let path = language.path().join("account.json");
            if !path.is_file() {
                return Ok(pages);
            }
            let json = std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            let texts = pages.account_texts(&language.file_name().to_string_lossy(), &json);
            texts.map_err(|error| format!("{}: {error}", path.display()))
        })
    }
}

impl Mails {
    /// Adds the tables of jobs.
    pub(super) fn models(builder: StoreBuilder) -> StoreBuilder {
        marmota_jobs::models(builder)
    }

    /// Starts the worker that sends mails.
    pub(super) fn start(&self, store: &Store, auth: &Auth) -> marmota_model::Result<Worker> {
        let jobs = AccountMails::register(Jobs::new(store), auth, &self.sender, &self.templates)?;
        jobs.start(WorkerOptions::new().threads(1, 4))
    }
}
