//! Probes: small queries that compare a replica with the primary.

use std::sync::Arc;
use std::task::{Poll, Waker};

use marmota_model::{NoRows, Result};
use marmota_store::engine::Ticket;
use marmota_store::operation::{Operation, Outcome};
use marmota_store::refusal;

use super::PostgresSession;
use crate::commands::command_batch::Role;
use crate::in_flight::Stage;
use crate::statement::Text;

/// The type of the parameter of a probe: `bigint`.
const INT8: u32 = 20;

/// How far a server is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// The place in the log up to which its rows are visible, in bytes; `None` for a server of
    /// another role.
    log: Option<i64>,
    /// The time of the commit, which identifies it; `None` if the server does not have it.
    commit_at: Option<i64>,
}

/// The header of a page of the log, which a place after the last record of a full page includes,
/// but not the end of that record. Shorter than any commit's record.
const PAGE_HEADER: i64 = 24;

impl Progress {
    /// Returns true if a replica with this progress has all that was visible on the primary at
    /// `wanted`. A log that has diverged from the primary's has another commit of the same number.
    pub(super) fn has_applied(&self, wanted: &Self) -> bool {
        let (Some(log), Some(wanted_log)) = (self.log, wanted.log) else { return false };
        self.commit_at == wanted.commit_at && log >= wanted_log - PAGE_HEADER
    }

    /// Returns true if the server has the role for which it was probed.
    pub(super) const fn is_known(&self) -> bool {
        self.log.is_some()
    }
}

/// The statements of probes.
#[derive(Debug)]
pub(super) struct Probes {
    pub(super) primary: Arc<Text>,
    pub(super) replica: Arc<Text>,
}

impl Probes {
    /// Creates the statements. `commits` is the table of commits, as a word of SQL.
    pub(super) fn new(commits: &str) -> Self {
        let text = |is_replica: bool, log: &str| {
            let sql = format!(
                "SELECT CASE WHEN pg_is_in_recovery()={is_replica} THEN ({log}()-'0/0')::bigint END,\
                 (SELECT at FROM {commits} WHERE id=$1)"
            );
            Arc::new(Text::new(sql, vec![INT8], Box::default()))
        };
        Self {
            primary: text(false, "pg_current_wal_insert_lsn"),
            replica: text(true, "pg_last_wal_replay_lsn"),
        }
    }
}

impl PostgresSession {
    /// Starts a probe for the commit with this number.
    pub(super) fn begin_probe(&mut self, text: &Arc<Text>, number: i64) -> Result<Ticket> {
        self.shared.check_open()?;
        let mut running = self.running(Stage::Main);
        running.slot = Arc::clone(&self.reader);
        running.shares_sync = self.shared.options.group_reads;
        running.commands.call(Role::Main(0), Arc::clone(text), |out| {
            out.extend(8_i32.to_be_bytes());
            out.extend(number.to_be_bytes());
            Ok(1)
        })?;
        let ticket = self.operations.add(running);
        if let Some(mut running) = self.operations.take(ticket) {
            self.write_down(ticket, &mut running);
            self.operations.put(ticket, running);
        }
        Ok(ticket)
    }

    /// Continues a probe.
    ///
    /// # Errors
    /// That of the connection or the server.
    pub(super) fn poll_probe(&mut self, ticket: Ticket, waker: &Waker) -> Poll<Result<Progress>> {
        let Some(mut running) = self.operations.take(ticket) else {
            return Poll::Ready(Err(refusal::not_waiting()));
        };
        // A probe lends no rows, and has no outcome: the operation only stands for one.
        let (mut operation, mut outcome) = (Operation::Rollback, Outcome::default());
        let polled =
            self.drive(ticket, &mut running, &mut operation, &mut NoRows, &mut outcome, waker);
        let Poll::Ready(result) = polled else {
            self.operations.put(ticket, running);
            return Poll::Pending;
        };
        self.operations.remove(ticket);
        let progress = result.as_ref().map_err(refusal::copy_of).map(|()| {
            let mark = running.reply.mark(Role::Main(0));
            let integer = |at| mark.and_then(|mark| running.reply.integer(mark, at));
            Progress { log: integer(0), commit_at: integer(1) }
        });
        if running.gives_slot_back() {
            self.shared.pool.give_back(Arc::clone(&running.slot));
        }
        self.finish(ticket, running, &result);
        Poll::Ready(progress)
    }
}
