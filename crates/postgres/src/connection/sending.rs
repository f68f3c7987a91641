//! What an exchange sends: statements, prepared at their first use, with their
//! parameters.

use std::sync::Arc;
use std::time::Instant;

use super::{Connection, Exchange};
use crate::statement::{StatementName, Text};
use crate::wire::frontend;

/// The most statements that are prepared at once.
const STATEMENTS_MAX: usize = 256;

/// What a statement is called in a message.
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

/// What an exchange sends.
pub(crate) struct Sending<'c> {
    connection: &'c mut Connection,
    exchange: &'c mut Exchange,
}

impl Sending<'_> {
    /// Runs a statement with parameters, as [`crate::wire::value::put`] wrote
    /// them; prepares it at its first use, or each time over a pooler.
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

    /// True if what this exchange sends ends without a Sync of its own.
    pub(crate) const fn shares_sync(&self) -> bool {
        self.exchange.shares_sync
    }

    /// Asks what a statement's parameters and rows are.
    pub(crate) fn describe(&mut self, text: &Text) {
        let name = self.name(text);
        frontend::describe(&mut self.connection.out, name.bytes());
    }

    /// What a statement is called on this connection, once it is prepared.
    fn name(&mut self, text: &Text) -> SentName {
        if self.connection.settings.is_none() {
            self.prepare(text);
            return SentName::Named(text.name);
        }
        // The next transaction may be on a connection that knows nothing of it.
        frontend::parse(&mut self.connection.out, b"", &text.sql, &text.types);
        SentName::Unnamed
    }

    /// What begins a transaction over a pooler; none on a connection that keeps
    /// its settings.
    pub(crate) fn settings(&self) -> Option<Arc<Text>> {
        self.connection.settings.clone()
    }

    /// Sends what a COPY takes, behind its call.
    pub(crate) fn copy(&mut self, body: impl FnOnce(&mut Vec<u8>)) {
        frontend::copy_data(&mut self.connection.out, body);
        frontend::copy_done(&mut self.connection.out);
    }

    /// True if the server has to be told first that statements are to find rows
    /// in order, or no more. Taken as told from here on, until a group that
    /// does tell it fails.
    pub(crate) fn turns_to_order(&mut self, in_order: bool) -> bool {
        let turns = self.connection.in_order != Some(in_order);
        self.connection.in_order = Some(in_order);
        self.exchange.turns |= turns;
        turns
    }

    /// Runs SQL as it stands, and ends its group.
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

    /// Prepares a statement, unless it is, or cannot be kept.
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
    /// Adds an exchange to what is sent with the next poll; gives its number.
    pub(crate) fn submit(&mut self, build: impl FnOnce(&mut Sending<'_>)) -> u64 {
        self.end_shared_sync();
        self.push(Exchange { is_wanted: true, ..Exchange::default() }, build)
    }

    /// The same for statements that only read, soon end and do not fail by themselves: those that
    /// are submitted before the next poll have one Sync ([`Sending::shares_sync`]), at which
    /// PostgreSQL sends their answers together. If one fails, those after it are
    /// [skipped](super::Ending::Skipped). Over a pooler each has its own.
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

    /// Ends a group. What gave its place to other statements is closed at the beginning of the
    /// next one, where nothing before it can fail.
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

    /// Prepares a statement again at its next use: the server does not know it
    /// any more, or knows it by tables that have changed.
    pub(crate) fn forget(&mut self, text: &Text) {
        if self.prepared.remove(&text.name.key()).is_some() {
            frontend::close(&mut self.out, text.name.bytes());
        }
    }
}
