//! Executions of a prepared statement: one, or several that are sent together.
//!
//! The driver waits for the answer of each statement before it sends the next one. The server reads
//! its socket only between statements, and so executes several that have arrived, one after the other.
//! Here their packets are written to a second handle of the driver's socket, while the driver has
//! nothing in flight: connecting, authentication and all other statements are the driver's. Values are
//! written and read in place, where the driver would copy each of them.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use marmota_blocking::WriteCount;
use marmota_model::Value;
use mysql::Conn;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::answer::{Answer, Preparation, Prepared, TakeRows};
use crate::fault::Failure;
use crate::packets::Packets;
use crate::request::{add_close, add_execution, add_preparation, add_query};
use crate::socket::second_handle;
use crate::statements::Statements;

/// The most bytes of requests in flight. The socket's buffers hold more, so that writing never waits
/// for the server, which may itself wait until its answers are read.
pub(crate) const REQUESTS_MAX: usize = 16 << 10;
/// A larger buffer is freed after its requests were sent.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Statements around one that must not change rows.
const READ_ONLY: [&str; 2] = ["START TRANSACTION READ ONLY", "ROLLBACK"];

/// The socket of a connection that is neither encrypted nor compressed.
pub(crate) struct Pipeline {
    pub(crate) socket: Arc<TcpStream>,
    pub(crate) packets: Packets,
    pub(crate) statements: Statements,
    /// Requests that were not sent.
    pub(crate) requests: Vec<u8>,
}

impl Pipeline {
    pub(crate) fn of(conn: &Conn) -> io::Result<Self> {
        Ok(Self {
            socket: Arc::new(second_handle(conn)?),
            packets: Packets::default(),
            statements: Statements::default(),
            requests: Vec::new(),
        })
    }

    /// Prepares a statement, unless it is prepared.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn prepare(&mut self, sql: &str) -> io::Result<Result<Prepared, Failure>> {
        if let Some(prepared) = self.statements.find(sql) {
            return Ok(Ok(prepared.clone()));
        }
        add_preparation(&mut self.requests, sql)?;
        self.send()?;
        let mut preparation = Preparation::default();
        let done = self.answer(|packet| preparation.take(packet))?;
        if let Ok(prepared) = &done {
            self.add(sql, prepared);
        }
        Ok(done)
    }

    /// Adds a prepared statement.
    pub(crate) fn add(&mut self, sql: &str, prepared: &Prepared) {
        if let Some(id) = self.statements.add(sql, prepared.clone()) {
            // It has no answer, and is sent with the next request.
            add_close(&mut self.requests, id);
        }
    }

    /// Executes a statement once for each list of parameters. Returns the result of each.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn execute(
        &mut self,
        statement: &Prepared,
        parameters: &[impl AsRef<[Value]>],
        take: &mut dyn TakeRows,
    ) -> io::Result<Vec<Result<WriteCount, Failure>>> {
        let mut done = Vec::with_capacity(parameters.len());
        let mut statement = statement.clone();
        let mut sent = 0;
        while done.len() < parameters.len() {
            while sent < parameters.len() && (sent == done.len() || !self.is_full()) {
                add_execution(&mut self.requests, statement.id, parameters[sent].as_ref())?;
                sent += 1;
            }
            self.send()?;
            while done.len() < sent {
                done.push(self.executed(&mut statement, done.len(), take)?);
            }
        }
        Ok(done)
    }

    /// Executes a statement that must not change rows, outside of a transaction.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn execute_read_only(
        &mut self,
        statement: &Prepared,
        parameters: &[Value],
        take: &mut dyn TakeRows,
    ) -> io::Result<Result<WriteCount, Failure>> {
        add_query(&mut self.requests, READ_ONLY[0])?;
        add_execution(&mut self.requests, statement.id, parameters)?;
        add_query(&mut self.requests, READ_ONLY[1])?;
        self.send()?;
        let begun = self.texted(take)?;
        let done = self.executed(&mut statement.clone(), 0, take)?;
        let ended = self.texted(take)?;
        Ok(begun.and(done).and_then(|done| ended.map(|_| done)))
    }

    /// Returns true if no more requests should be in flight.
    fn is_full(&self) -> bool {
        self.requests.len() >= REQUESTS_MAX
    }

    /// Reads the answer to a text that returns no rows.
    fn texted(&mut self, take: &mut dyn TakeRows) -> io::Result<Result<WriteCount, Failure>> {
        let mut answer = Answer::of_text();
        self.answer(|packet| answer.take(packet, take))
    }

    /// Reads the answer to one execution, which may describe new columns.
    fn executed(
        &mut self,
        statement: &mut Prepared,
        number: usize,
        take: &mut dyn TakeRows,
    ) -> io::Result<Result<WriteCount, Failure>> {
        let mut answer = Answer::of(Arc::clone(&statement.columns), number);
        let done = self.answer(|packet| answer.take(packet, take))?;
        if let Some(columns) = answer.new_columns() {
            self.statements.describe(statement.id, columns);
            statement.columns = Arc::clone(columns);
        }
        Ok(done)
    }

    fn send(&mut self) -> io::Result<()> {
        self.socket.as_ref().write_all(&self.requests)?;
        self.forget_requests();
        Ok(())
    }

    fn forget_requests(&mut self) {
        self.requests.clear();
        if self.requests.capacity() > KEPT_BYTES_MAX {
            self.requests = Vec::new();
        }
    }

    /// Passes packets to `take` until it returns a result.
    fn answer<T>(&mut self, mut take: impl FnMut(&[u8]) -> io::Result<Option<T>>) -> io::Result<T> {
        loop {
            while let Some(packet) = self.packets.next()? {
                if let Some(done) = take(packet)? {
                    return Ok(done);
                }
            }
            match self.socket.as_ref().read(self.packets.room()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => self.packets.add(got?),
            }
        }
    }

    /// Sends all requests without waiting.
    ///
    /// # Errors
    /// The connection is lost, or the socket has no room for all of them; then the connection
    /// must not be used again.
    pub(crate) fn send_at_once(&mut self) -> io::Result<()> {
        // The driver has the socket, too, and expects that it blocks: so only this call does not.
        let sent = send(&*self.socket, &self.requests, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        if sent < self.requests.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.forget_requests();
        Ok(())
    }

    /// Reads what has arrived. Returns false if that is nothing.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn read_at_once(&mut self) -> io::Result<bool> {
        loop {
            match recv(&*self.socket, self.packets.room(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, got)) => {
                    self.packets.add(got);
                    return Ok(true);
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
