//! The role of a store in a pair of databases.

use marmota_model::{Error, ErrorKind, Result};

use super::StoreBuilder;
use crate::layers::feed::pair_record::{PairRecord, PairRole};

impl StoreBuilder {
    /// Opens the store as a part of a pair ([`crate::pair`]): the changes of all tables are recorded,
    /// those of internal ones too. A database that is the secondary is opened only with
    /// [`PairRole::Secondary`]. Default: the role that the database has recorded, if it is primary.
    #[must_use]
    pub const fn pair_role(mut self, role: PairRole) -> Self {
        self.pair_role = Some(role);
        self
    }

    /// Checks the role that the database has recorded. Returns true if it is a part of a pair.
    pub(super) fn check_pair(&self) -> Result<bool> {
        // A replica has the record of its primary.
        let may_have_record = self.databases.is_empty() && self.commit_sink.is_none();
        if !may_have_record || !self.engine.capability().change_feed {
            return match self.pair_role {
                None => Ok(false),
                Some(_) => Err(Error::new(
                    ErrorKind::Unsupported,
                    "a pair needs one database with a change feed (SQLite, memory, PostgreSQL) \
                     that is not replicated",
                )),
            };
        }
        let record = PairRecord::find(&*self.engine)?;
        if self.pair_role != Some(PairRole::Secondary) {
            record.iter().try_for_each(PairRecord::check_is_primary)?;
        }
        Ok(record.is_some() || self.pair_role.is_some())
    }
}
