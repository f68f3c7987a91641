//! The database of a running server with what is opened and closed together with it.

use marmota_model::Result;
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::plan::Destructive;
use marmota_webhooks::{WebhookWorker, Webhooks};

use super::Serve;
use crate::command::Command;
#[cfg(feature = "replication")]
use crate::command::replicate::Replication;

/// An open store, the files of its rows, and its replication.
pub(super) struct OpenDatabase {
    pub(super) store: Store,
    #[cfg(feature = "files")]
    files: Option<marmota_files::FileStorage>,
    #[cfg(feature = "replication")]
    pub(super) replication: Replication,
    /// The webhooks, and the worker that sends their deliveries.
    webhooks: Option<(Webhooks, WebhookWorker)>,
}

impl OpenDatabase {
    /// Opens the database with the tables of the program, or those of its file. Steps that lose
    /// values need a permission.
    ///
    /// # Errors
    /// Those of the store, the folder or bucket of files, and the replication.
    pub(super) fn open(
        serve: &Serve,
        command: &Command,
        url: &str,
        destructive: &Destructive,
    ) -> Result<Self> {
        #[cfg(feature = "replication")]
        let replication = serve.replicate.prepare(url)?;
        let builder = command.builder(url)?.allow_destructive(destructive.clone());
        #[cfg(feature = "replication")]
        let builder = replication.of_store(builder);
        let builder = serve.extend(command, builder)?;
        #[cfg(feature = "files")]
        let files = serve.files.as_deref().map(marmota_files::FileStorage::open).transpose()?;
        #[cfg(feature = "files")]
        let builder = match &files {
            Some(files) => files.attach(builder),
            None => builder,
        };
        let store = builder.open()?;
        Ok(Self {
            store,
            #[cfg(feature = "files")]
            files,
            #[cfg(feature = "replication")]
            replication,
            webhooks: None,
        })
    }

    /// Returns true for a replica, which is not written to.
    #[cfg_attr(not(feature = "replication"), allow(clippy::unused_self, reason = "with it"))]
    pub(super) const fn is_replica(&self) -> bool {
        #[cfg(feature = "replication")]
        return self.replication.is_replica();
        #[cfg(not(feature = "replication"))]
        false
    }

    /// Starts what works in the background: the removal of bytes that no row refers to, and the
    /// deliveries of webhooks.
    ///
    /// # Errors
    /// Those of the storage of files, and of the store.
    pub(super) fn start(&mut self, serve: &Serve, command: &Command) -> Result<()> {
        if self.is_replica() {
            return Ok(());
        }
        #[cfg(feature = "files")]
        if let Some(files) = &self.files {
            files.start(&self.store)?;
        }
        if serve.webhooks.are_enabled(command)? {
            self.webhooks = Some(serve.webhooks.start(command, &self.store)?);
        }
        Ok(())
    }

    /// Returns the webhooks, if there are any.
    pub(super) fn webhooks(&self) -> Option<&Webhooks> {
        self.webhooks.as_ref().map(|(webhooks, _)| webhooks)
    }

    /// Returns REST over the store.
    pub(super) fn api(&self, serve: &Serve, store: &Store) -> Api {
        let api = serve.rest.apply_to(Api::new(store));
        #[cfg(feature = "files")]
        let api = match &self.files {
            Some(files) => api.files(files),
            None => api,
        };
        api
    }

    /// Stops what works in the background, and closes the store.
    ///
    /// # Errors
    /// Those of [`Store::close`]; after `Busy` the store stays open.
    pub(super) fn close(&mut self) -> Result<()> {
        if let Some((_, worker)) = self.webhooks.take() {
            worker.stop()?;
        }
        #[cfg(feature = "files")]
        if let Some(files) = &self.files {
            files.stop();
        }
        self.store.close()
    }
}
