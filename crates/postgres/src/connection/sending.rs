//! The messages of an exchange: statements, prepared at their first use, with their parameters.

use std::sync::Arc;
use std::time::Instant;

use super::{Connection, Exchange};
use crate::statement::{StatementName, Text};
use crate::wire::frontend;

/// The most statements that are prepared at once.
const STATEMENTS_MAX: usize = 256;

/// The name of a statement in a message.
enum SentName {
    Named(StatementName),
    Unnamed,
}

impl SentName {
    const fn bytes(&self) -> &[u8] {
        match self {
            Self::Named(name) => name.bytes(),
            Self::Unnamed => b"",
        }
    }
}

/// Writes the messages of an exchange.
pub(crate) struct Sending<'c> {
    connection: &'c mut Connection,
    exchange: &'c mut Exchange,
}

impl Sending<'_> {
    /// Runs a statement with parameters that [`crate::wire::value::put`] wrote. Prepares it at its
    /// first use, or each time over a pooler.
    pub(crate) fn call(&mut self, text: &Text, count: u16, parameters: &[u8]) {
        let name = self.name(text);
        let out = &mut self.connection.out;
        match &text.formats {
            None => frontend::bind(out, name.bytes(), count, parameters),
            Some(formats) => {
                let formats = (&*formats.parameters, &*formats.results);
                frontend::bind_mixed(out, name.bytes(), formats, parameters);
            }
        }
        frontend::execute(&mut self.connection.out);
        self.exchange.calls_left += u32::from(self.exchange.shares_sync);
    }

    /// Returns true if this exchange has no Sync message of its own.
    pub(crate) const fn shares_sync(&self) -> bool {
        self.exchange.shares_sync
    }

    /// Requests the types of a statement's parameters and rows.
    pub(crate) fn describe(&mut self, text: &Text) {
        let name = self.name(text);
        frontend::describe(&mut self.connection.out, name.bytes());
    }

    /// Returns the name of a statement on this connection, and prepares it if necessary.
    fn name(&mut self, text: &Text) -> SentName {
        if self.connection.settings.is_none() {
            self.prepare(text);
            return SentName::Named(text.name);
        }
        // The next transaction may be on a server connection without it.
        frontend::parse(&mut self.connection.out, b"", &text.sql, &text.types);
        SentName::Unnamed
    }

    /// Returns the settings that begin a transaction over a pooler, or `None` on a connection that
    /// keeps its settings.
    pub(crate) fn settings(&self) -> Option<Arc<Text>> {
        self.connection.settings.clone()
    }

    /// Sends the data of a COPY after its call.
    pub(crate) fn copy(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        frontend::copy_data(&mut self.connection.out, body);
        frontend::copy_done(&mut self.connection.out);
    }

    /// Returns true if the server must first be switched to finding rows in order, or back. The
    /// switch counts as done from here on, until a group with such a switch fails.
    pub(crate) fn turns_to_order(&mut self, in_order: bool) -> bool {
        let turns = self.connection.in_order != Some(in_order);
        self.connection.in_order = Some(in_order);
        self.exchange.turns |= turns;
        turns
    }

    /// Runs SQL unchanged, and ends its group.
    pub(crate) fn query(&mut self, sql: &str) {
        frontend::query(&mut self.connection.out, sql);
        self.exchange.groups += 1;
        self.exchange.groups_left += 1;
    }

    /// Ends a group: if something in it fails, the rest of it is skipped.
    pub(crate) fn sync(&mut self) {
        self.connection.write_sync();
        self.exchange.groups += 1;
        self.exchange.groups_left += 1;
    }

    /// Prepares a statement, unless it is already prepared or cannot be kept.
    pub(crate) fn prepare(&mut self, text: &Text) {
        let connection = &mut *self.connection;
        if connection.settings.is_some() {
            return;
        }
        connection.uses += 1;
        let uses = connection.uses;
        if let Some(used) = connection.prepared.get_mut(&text.name.key()) {
            *used = uses;
            return;
        }
        if connection.prepared.len() >= STATEMENTS_MAX {
            let oldest = connection.prepared.iter().min_by_key(|(_, used)| **used);
            if let Some(oldest) = oldest.map(|(name, _)| *name) {
                connection.prepared.remove(&oldest);
                connection.evicted.push(oldest);
            }
        }
        if let Some(at) = connection.evicted.iter().position(|name| *name == text.name.key()) {
            connection.evicted.swap_remove(at);
            connection.prepared.insert(text.name.key(), uses);
            return;
        }
        frontend::parse(&mut connection.out, text.name.bytes(), &text.sql, &text.types);
        connection.prepared.insert(text.name.key(), uses);
        self.exchange.parsing.push_back((text.name.key(), self.exchange.groups));
    }
}

impl Connection {
    /// Adds an exchange, which is sent with the next poll. Returns its number.
    pub(crate) fn submit(&mut self, build: impl FnOnce(&mut Sending<'_>)) -> u64 {
        self.end_shared_sync();
        self.push(Exchange { is_wanted: true, ..Exchange::default() }, build)
    }

    /// Like [`Self::submit`] for short statements that only read and do not fail by themselves:
    /// those submitted before the next poll share one Sync ([`Sending::shares_sync`]), at which
    /// PostgreSQL sends their answers together. If one fails, those after it are
    /// [skipped](super::Ending::Skipped). Over a pooler each has its own Sync.
    pub(crate) fn submit_shared(&mut self, build: impl FnOnce(&mut Sending<'_>)) -> u64 {
        if self.settings.is_some() {
            return self.submit(build);
        }
        self.lacks_sync = true;
        self.push(Exchange { is_wanted: true, shares_sync: true, ..Exchange::default() }, build)
    }

    /// Writes the Sync that the last exchanges share.
    pub(super) fn end_shared_sync(&mut self) {
        if std::mem::take(&mut self.lacks_sync)
            && let Some(last) = self.exchanges.back_mut()
        {
            (last.groups, last.groups_left) = (1, 1);
            self.write_sync();
        }
    }

    /// Ends a group. Evicted statements are closed at the start of the next one, where nothing
    /// before it can fail.
    fn write_sync(&mut self) {
        frontend::sync(&mut self.out);
        for name in std::mem::take(&mut self.evicted) {
            frontend::close(&mut self.out, StatementName::from(name).bytes());
        }
    }

    fn push(&mut self, mut exchange: Exchange, build: impl FnOnce(&mut Sending<'_>)) -> u64 {
        if self.under_way() == 0 {
            self.used = Instant::now();
            self.current_since = self.used;
        }
        build(&mut Sending { connection: self, exchange: &mut exchange });
        self.exchanges.push_back(exchange);
        self.first + self.exchanges.len() as u64 - 1
    }

    /// Marks a statement to be prepared again at its next use: the server no longer has it, or has
    /// it for tables that have changed.
    pub(crate) fn forget(&mut self, text: &Text) {
        if self.prepared.remove(&text.name.key()).is_some() {
            frontend::close(&mut self.out, text.name.bytes());
        }
    }
}
