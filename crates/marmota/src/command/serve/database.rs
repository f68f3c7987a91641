//! The database of a running server with what is opened and closed together with it.

#[cfg(feature = "app")]
use std::time::Duration;

use marmota_auth::Auth;
use marmota_model::Result;
use marmota_rest::Api;
use marmota_store::pair::PairRole;
use marmota_store::plan::Destructive;
use marmota_store::{Store, StoreBuilder};
use marmota_webhooks::{WebhookWorker, Webhooks};

use super::options::Serve;
use super::routes::RouteParts;
#[cfg(feature = "mail")]
use super::routes::program_name;
#[cfg(feature = "replication")]
use crate::command::replicate::Replication;
use crate::command::{Command, notice};
use crate::operations::Backups;

/// An open store, the files of its rows, and its replication.
pub(super) struct OpenDatabase {
    pub(super) store: Store,
    /// Its URL, which changes if the server moves to another database.
    pub(super) url: String,
    #[cfg(feature = "files")]
    files: Option<marmota_files::FileStorage>,
    #[cfg(feature = "replication")]
    pub(super) replication: Replication,
    /// The webhooks, and the worker that sends their deliveries.
    webhooks: Option<(Webhooks, WebhookWorker)>,
    /// The backups in a folder, made by a schedule if there is one.
    backups: Option<Backups>,
    /// The accounts, with `--auth`.
    auth: Option<Auth>,
    /// Sends the mails of accounts.
    #[cfg(feature = "mail")]
    mail_worker: Option<marmota_jobs::Worker>,
}

impl OpenDatabase {
    /// Opens the database with the tables of the program, or those of its file. Steps that lose
    /// values need a permission. `role` is that in a live move.
    ///
    /// # Errors
    /// Those of the store, the folder or bucket of files, and the replication.
    pub(super) fn open(
        serve: &Serve,
        command: &Command,
        url: &str,
        destructive: &Destructive,
        role: Option<PairRole>,
    ) -> Result<Self> {
        #[cfg(feature = "replication")]
        let replication = serve.replicate.prepare(url)?;
        #[cfg(feature = "files")]
        let files = serve.files.open()?;
        let builder = Self::builder(
            serve,
            command,
            url,
            #[cfg(feature = "files")]
            files.as_ref(),
        )?;
        let builder = builder.allow_destructive(destructive.clone());
        #[cfg(feature = "replication")]
        let builder = replication.of_store(builder);
        let builder = match role {
            Some(role) => builder.pair_role(role),
            None => builder,
        };
        let store = builder.open()?;
        Ok(Self {
            store,
            url: url.to_owned(),
            #[cfg(feature = "files")]
            files,
            #[cfg(feature = "replication")]
            replication,
            webhooks: None,
            backups: None,
            auth: None,
            #[cfg(feature = "mail")]
            mail_worker: None,
        })
    }

    /// Returns the builder of the store at a URL, with all tables of the program and the options.
    fn builder(
        serve: &Serve,
        command: &Command,
        url: &str,
        #[cfg(feature = "files")] files: Option<&marmota_files::FileStorage>,
    ) -> Result<StoreBuilder> {
        let builder = serve.extend(command, command.builder(url)?)?;
        #[cfg(feature = "files")]
        let builder = match files {
            Some(files) => files.attach(builder),
            None => builder,
        };
        Ok(builder)
    }

    /// Returns the builder of another database with the same tables, which is filled by a live move.
    ///
    /// # Errors
    /// Those of the URL and of the options.
    #[cfg(feature = "app")]
    pub(super) fn builder_of_other(
        serve: &Serve,
        command: &Command,
        url: &str,
    ) -> Result<StoreBuilder> {
        #[cfg(feature = "files")]
        let files = serve.files.open()?;
        Self::builder(
            serve,
            command,
            url,
            #[cfg(feature = "files")]
            files.as_ref(),
        )
    }

    /// Returns true for a replica, which is not written to.
    #[cfg_attr(not(feature = "replication"), allow(clippy::unused_self, reason = "with it"))]
    pub(super) const fn is_replica(&self) -> bool {
        #[cfg(feature = "replication")]
        return self.replication.is_replica();
        #[cfg(not(feature = "replication"))]
        false
    }

    /// Returns true if the commits are copied to a target.
    #[cfg(feature = "app")]
    #[cfg_attr(not(feature = "replication"), allow(clippy::unused_self, reason = "with it"))]
    pub(super) const fn is_replicated(&self) -> bool {
        #[cfg(feature = "replication")]
        return matches!(self.replication, Replication::Primary(_));
        #[cfg(not(feature = "replication"))]
        false
    }

    /// Waits until the target of the replication has all commits so far.
    ///
    /// # Errors
    /// Those of a target that does not answer or does not accept them in time.
    #[cfg(feature = "app")]
    #[cfg_attr(not(feature = "replication"), allow(clippy::unused_self, reason = "with it"))]
    pub(super) fn flush_replication(&self, timeout: Duration) -> Result<()> {
        #[cfg(feature = "replication")]
        return self.replication.flush(timeout);
        #[cfg(not(feature = "replication"))]
        {
            let _ = timeout;
            Ok(())
        }
    }

    /// Opens the accounts, and starts what works in the background: the removal of bytes that no row
    /// refers to, the deliveries of webhooks, and mails. Prints the token of the first administrator.
    ///
    /// # Errors
    /// Those of the store, the storage of files, and the options.
    pub(super) fn start(
        &mut self,
        serve: &Serve,
        parts: &RouteParts<'_>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        if serve.auth {
            self.open_accounts(serve, parts)?;
        } else {
            #[cfg(feature = "passkeys")]
            serve.accounts.check_without_users()?;
            serve.operators.check_without_users()?;
        }
        self.start_background(serve, parts)
    }

    /// Starts what works in the background, unless the database is a replica.
    ///
    /// # Errors
    /// Those of the store, the storage of files, and the options.
    pub(super) fn start_background(
        &mut self,
        serve: &Serve,
        parts: &RouteParts<'_>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let is_replica = self.is_replica();
        if let Some(backups) = serve.operators.backups.open(&self.store, &self.url) {
            if !is_replica {
                backups.start()?;
            }
            self.backups = Some(backups);
        }
        if is_replica {
            return Ok(());
        }
        #[cfg(feature = "mail")]
        if let Some(auth) = &self.auth
            && let Some(mails) = serve.accounts.mails(serve.auth, &program_name())?
        {
            self.mail_worker = Some(mails.start(&self.store, auth)?);
        }
        #[cfg(feature = "files")]
        if let Some(files) = &self.files {
            files.start(&self.store)?;
        }
        if serve.webhooks.are_enabled(parts.command)? {
            self.webhooks = Some(serve.webhooks.start(parts.command, &self.store)?);
        }
        Ok(())
    }

    /// Opens the accounts.
    fn open_accounts(
        &mut self,
        serve: &Serve,
        parts: &RouteParts<'_>,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let RouteParts { command, url, .. } = *parts;
        if command.routes.is_some() {
            let message = "this program has its own routes and authenticates their callers itself: \
                           leave `--auth` out";
            return Err(message.into());
        }
        #[cfg(feature = "mail")]
        let mails = serve.accounts.mails(serve.auth, &program_name())?;
        let settings = serve.sessions.settings()?;
        #[cfg(feature = "mail")]
        let settings = serve.accounts.add_to(settings, mails.as_ref(), &program_name(), url)?;
        #[cfg(feature = "app")]
        let auth = command.files.open_accounts(&self.store, settings)?;
        #[cfg(not(feature = "app"))]
        let auth = Auth::new(&self.store, settings)?;
        if let Some(token) = auth.setup_token() {
            notice(format_args!(
                "No user is an administrator yet. Within 24 hours set the password of `admin`{}:\n  \
                 curl {url}/api/auth/set-password -H 'Content-Type: application/json' \
                 -d '{{\"name\":\"admin\",\"token\":\"{token}\",\"password\":\"…\"}}'",
                serve.setup_page(url, token)
            ));
        }
        self.auth = Some(auth);
        Ok(())
    }

    /// Returns the accounts, after [`OpenDatabase::start`] with `--auth`.
    pub(super) const fn auth(&self) -> Option<&Auth> {
        self.auth.as_ref()
    }

    /// Returns the webhooks, if there are any.
    pub(super) fn webhooks(&self) -> Option<&Webhooks> {
        self.webhooks.as_ref().map(|(webhooks, _)| webhooks)
    }

    /// Returns the backups, with `--backups`.
    pub(super) const fn backups(&self) -> Option<&Backups> {
        self.backups.as_ref()
    }

    /// Returns REST over the store.
    pub(super) fn api(&self, serve: &Serve, store: &Store) -> Api {
        let api = serve.rest.apply_to(Api::new(store));
        let api = match &self.webhooks {
            Some(_) => api.openapi(Webhooks::open_api("/api")),
            None => api,
        };
        #[cfg(feature = "files")]
        let api = match &self.files {
            Some(files) => api.files(files),
            None => api,
        };
        api
    }

    /// Stops what writes in the background, but not the hooks, which handle the commits until then.
    ///
    /// # Errors
    /// Those of the workers.
    pub(super) fn stop_workers(&mut self) -> Result<()> {
        #[cfg(feature = "mail")]
        if let Some(worker) = self.mail_worker.take() {
            worker.stop()?;
        }
        if let Some((_, worker)) = &mut self.webhooks {
            worker.stop_deliveries()?;
        }
        if let Some(backups) = self.backups.take() {
            backups.stop()?;
        }
        #[cfg(feature = "files")]
        if let Some(files) = &self.files {
            files.stop();
        }
        Ok(())
    }

    /// Stops what works in the background: waits for requests to receivers and mail servers.
    ///
    /// # Errors
    /// Those of the workers.
    pub(super) fn stop_background(&mut self) -> Result<()> {
        self.stop_workers()?;
        match self.webhooks.take() {
            Some((_, worker)) => worker.stop(),
            None => Ok(()),
        }
    }

    /// Stops what works in the background, and closes the store.
    ///
    /// # Errors
    /// Those of [`Store::close`]; after `Busy` the store stays open.
    pub(super) fn close(&mut self) -> Result<()> {
        self.stop_background()?;
        self.store.close()
    }
}
