//! Executions of a prepared statement: one, or several that are sent together.
//!
//! The driver waits for the answer of each statement before it sends the next one. The server reads
//! its socket only between statements, and so executes several that have arrived, one after the other.
//! Here their packets are written to a second handle of the driver's socket, while the driver has
//! nothing in flight: connecting, authentication and all other statements are the driver's. Values are
//! written and read in place, where the driver would copy each of them.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use marmota_blocking::WriteCount;
use marmota_model::Value;
use mysql::consts::StatusFlags;
use mysql::{Column, Conn, Statement};
use mysql_common::io::{ParseBuf, ReadMysqlExt as _};

use crate::fault::Failure;
use crate::request::{HEAD, PACKET_MAX, add_execution, add_query};
use crate::socket::second_handle;

/// The most bytes of requests in flight. The socket's buffers hold more, so that writing never waits
/// for the server, which may itself wait until its answers are read.
const REQUESTS_MAX: usize = 16 << 10;
const READ_BYTES: usize = 16 << 10;
/// The most statements whose results have other columns than the driver knows.
const DESCRIBED_MAX: usize = 128;
/// Statements around one that must not change rows.
const READ_ONLY: [&str; 2] = ["START TRANSACTION READ ONLY", "ROLLBACK"];

/// Receives what an execution returns.
pub(crate) trait TakeRows {
    /// Receives the columns, before the first row of each execution.
    fn columns(&mut self, columns: &[Column]);

    /// Receives the number of an execution, the columns, and the packet with a row.
    ///
    /// # Errors
    /// The packet is invalid.
    fn row(&mut self, number: usize, columns: &[Column], packet: &[u8]) -> io::Result<()>;
}

/// The socket of a connection that is neither encrypted nor compressed.
pub(crate) struct Pipeline {
    socket: TcpStream,
    /// What was read, from `at` on not yet used.
    read: Vec<u8>,
    at: usize,
    /// The payload of the current packet.
    packet: Vec<u8>,
    /// The columns of statements, by their numbers, if the server described others than the driver
    /// knows.
    described: HashMap<u32, Arc<[Column]>>,
    /// True if there are too many of them.
    is_stale: bool,
}

impl Pipeline {
    pub(crate) fn of(conn: &Conn) -> io::Result<Self> {
        let (read, packet, described) = (Vec::new(), Vec::new(), HashMap::new());
        let socket = second_handle(conn)?;
        Ok(Self { socket, read, at: 0, packet, described, is_stale: false })
    }

    /// Returns true if the connection must not be used again.
    pub(crate) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Executes a statement once for each list of parameters. Returns the result of each.
    ///
    /// # Errors
    /// The connection is lost.
    pub(crate) fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[impl AsRef<[Value]>],
        take: &mut dyn TakeRows,
    ) -> io::Result<Vec<Result<WriteCount, Failure>>> {
        let mut done = Vec::with_capacity(parameters.len());
        let mut requests = Vec::new();
        let mut sent = 0;
        while done.len() < parameters.len() {
            requests.clear();
            while sent < parameters.len() && (requests.is_empty() || requests.len() < REQUESTS_MAX)
            {
                add_execution(&mut requests, statement.id(), parameters[sent].as_ref())?;
                sent += 1;
            }
            self.socket.write_all(&requests)?;
            while done.len() < sent {
                done.push(self.answer(Some(statement), done.len(), take)?);
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
        statement: &Statement,
        parameters: &[Value],
        take: &mut dyn TakeRows,
    ) -> io::Result<Result<WriteCount, Failure>> {
        let mut requests = Vec::new();
        add_query(&mut requests, READ_ONLY[0])?;
        add_execution(&mut requests, statement.id(), parameters)?;
        add_query(&mut requests, READ_ONLY[1])?;
        self.socket.write_all(&requests)?;
        let begun = self.answer(None, 0, take)?;
        let done = self.answer(Some(statement), 0, take)?;
        let ended = self.answer(None, 0, take)?;
        Ok(begun.and(done).and_then(|done| ended.map(|_| done)))
    }

    /// Reads the answer to one request: without a statement, to a text that returns no rows.
    fn answer(
        &mut self,
        statement: Option<&Statement>,
        number: usize,
        take: &mut dyn TakeRows,
    ) -> io::Result<Result<WriteCount, Failure>> {
        self.next_packet()?;
        match self.packet.first() {
            Some(0xff) => return Ok(Err(self.failure())),
            Some(0x00) => return self.written().map(Ok),
            _ => {}
        }
        let statement = statement.ok_or_else(invalid)?;
        let known = self.described.get(&statement.id()).map(Arc::clone);
        let mut columns = known.unwrap_or_else(|| statement.columns());
        let mut head = &self.packet[..];
        let count = usize::try_from(head.read_lenenc_int()?).map_err(|_| invalid())?;
        // MariaDB leaves out descriptions that it has sent before.
        if head.first() != Some(&0) {
            let mut described = Vec::new();
            for _ in 0..count {
                self.next_packet()?;
                described.push(ParseBuf(&self.packet).parse::<Column>(())?);
            }
            let form = |it: &Column| (it.column_type(), it.flags(), it.character_set());
            let is_known = described.iter().map(form).eq(columns.iter().map(form));
            columns = described.into();
            if !is_known {
                self.is_stale |= self.described.len() >= DESCRIBED_MAX;
                self.described.insert(statement.id(), Arc::clone(&columns));
            }
        }
        self.next_packet()?;
        take.columns(&columns);
        loop {
            self.next_packet()?;
            match self.packet.first() {
                Some(0xff) => return Ok(Err(self.failure())),
                Some(0xfe) if self.packet.len() < 9 => {
                    // The number of warnings comes first.
                    check_last(self.packet.get(3..))?;
                    return Ok(Ok(WriteCount::default()));
                }
                _ => {}
            }
            take.row(number, &columns, &self.packet)?;
        }
    }

    /// Reads the payload of the next packet.
    fn next_packet(&mut self) -> io::Result<()> {
        self.packet.clear();
        loop {
            self.fill(HEAD)?;
            let head = &self.read[self.at..];
            let length =
                usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            self.at += HEAD;
            self.fill(length)?;
            self.packet.extend_from_slice(&self.read[self.at..self.at + length]);
            self.at += length;
            if length < PACKET_MAX {
                return if self.packet.is_empty() { Err(invalid()) } else { Ok(()) };
            }
        }
    }

    /// Reads until this number of bytes is there.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        while self.read.len() - self.at < bytes {
            self.read.drain(..self.at);
            self.at = 0;
            let used = self.read.len();
            self.read.resize(used + READ_BYTES.max(bytes - used), 0);
            let got = self.socket.read(&mut self.read[used..]);
            self.read.truncate(used + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                got => drop(got?),
            }
        }
        Ok(())
    }

    /// Returns the counts in the current packet.
    fn written(&self) -> io::Result<WriteCount> {
        let mut rest = self.packet.get(1..).unwrap_or_default();
        let (rows, id) = (rest.read_lenenc_int()?, rest.read_lenenc_int()?);
        check_last(Some(rest))?;
        Ok(WriteCount { rows, id })
    }

    /// Returns the refusal in the current packet.
    #[cold]
    fn failure(&self) -> Failure {
        let code = match self.packet.get(1..3) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        // After the number come `#` and five characters of SQLSTATE.
        let text = self.packet.get(9..).unwrap_or_default();
        Failure::of_server(code, String::from_utf8_lossy(text).into_owned())
    }
}

/// Checks that no other result follows.
fn check_last(status: Option<&[u8]>) -> io::Result<()> {
    let Some(&[low, high, ..]) = status else { return Err(invalid()) };
    let status = StatusFlags::from_bits_truncate(u16::from_le_bytes([low, high]));
    match status.contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS) {
        true => Err(invalid()),
        false => Ok(()),
    }
}

#[cold]
fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent an invalid packet")
}
