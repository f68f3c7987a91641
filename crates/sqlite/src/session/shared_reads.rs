//! Reads by key of one call that share a snapshot.
//!
//! A snapshot takes and returns a lock on the file, by two system calls and a mutex that all
//! connections of the file share: as much as the read itself. So the first read of the call begins
//! one, and the end of the call ends it. It begins after the call, so that the reads see all that
//! was acknowledged before.

use std::thread::ThreadId;

use marmota_store::operation::Operation;

use super::SqliteSession;

/// The reads by key of one call.
pub(super) struct SharedReads {
    /// The thread of the call: threads may share a session, and others need a newer snapshot.
    thread: ThreadId,
    /// True once the session's connection has the snapshot.
    is_held: bool,
}

impl SqliteSession {
    /// Begins or ends a call. A call of another thread takes its place.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        let thread = std::thread::current().id();
        if is_shared {
            self.end_shared();
            self.shared_reads =
                (!self.shared.one_connection).then_some(SharedReads { thread, is_held: false });
        } else if self.shared_reads.as_ref().is_some_and(|shared| shared.thread == thread) {
            self.end_shared();
        }
    }

    /// Begins the snapshot if this read shares it, and ends it otherwise: a longer read may
    /// continue on a helper thread.
    pub(super) fn share_or_end(&mut self, operation: &Operation<'_>) {
        let is_of_call = matches!(operation, Operation::Get { .. })
            && self
                .shared_reads
                .as_ref()
                .is_some_and(|shared| shared.thread == std::thread::current().id());
        match (&mut self.shared_reads, &self.reader) {
            (Some(shared), Some(reader)) if is_of_call && !shared.is_held => {
                if let Some(executor) = &mut *reader.lock() {
                    shared.is_held = executor.connection.begin_snapshot();
                }
            }
            (Some(_), _) if !is_of_call => self.end_shared(),
            _ => {}
        }
    }

    fn end_shared(&mut self) {
        if let (Some(SharedReads { is_held: true, .. }), Some(reader)) =
            (self.shared_reads.take(), &self.reader)
            && let Some(executor) = &mut *reader.lock()
        {
            executor.roll_back();
        }
    }
}
