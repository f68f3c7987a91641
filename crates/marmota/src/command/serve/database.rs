//! The database of a running server with what is opened and closed together with it.

use marmota_model::Result;
use marmota_rest::Api;
use marmota_store::Store;
use marmota_store::plan::Destructive;

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
        let builder = serve.extend(builder);
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

    /// Starts the removal of bytes that no row refers to.
    ///
    /// # Errors
    /// Those of the storage.
    pub(super) fn start_files(&self) -> Result<()> {
        #[cfg(feature = "files")]
        if let Some(files) = self.files.as_ref().filter(|_| !self.is_replica()) {
            files.start(&self.store)?;
        }
        Ok(())
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

    /// Closes it all.
    ///
    /// # Errors
    /// Those of [`Store::close`]; after `Busy` the database stays open.
    pub(super) fn close(&self) -> Result<()> {
        #[cfg(feature = "files")]
        if let Some(files) = &self.files {
            files.stop();
        }
        self.store.close()
    }
}
