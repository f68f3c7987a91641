//! Reads on a connection that an event loop owns: no call waits for the server.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use marmota_blocking::{Dialect, LendRow, ReadAs, ReadStep, SqlFailure, SteppedConnection};
use marmota_model::Value;
use marmota_store::engine::Source;
use mysql::DriverError;

use crate::answer::{Answer, Preparation, Prepared};
use crate::connection::{Connection, LentRows};
use crate::fault::{self, Failure};
use crate::packets::invalid;
use crate::pipeline::{Pipeline, REQUESTS_MAX};
use crate::request::{add_execution, add_preparation, set_statement};
use crate::value::RowReader;

/// The number of times that one step reads the socket. Then other requests of the thread have their
/// turn.
const READS_MAX: usize = 4;

/// The most bytes of a request that is sent while others are on the way.
const JOINING_BYTES_MAX: usize = 1 << 10;

/// What the server does for a read.
enum Phase {
    /// It prepares the statement with this text, which is executed with this number of parameters by
    /// this request.
    Preparing(Preparation, String, usize, Vec<u8>),
    /// It executes the statement with this number.
    Executing(Answer, u32),
}

/// A connection on which an event loop reads.
pub(crate) struct SteppedReads {
    connection: Connection,
    source: Source,
    /// The reads, in the order of their answers.
    phases: VecDeque<Phase>,
    /// How the rows of the first read are read.
    reader: Option<RowReader>,
}

impl SteppedReads {
    /// Takes a connection, which reads from now on. Returns `None` if it is encrypted or compressed:
    /// then the driver has to read the socket.
    pub(crate) fn of(mut connection: Connection) -> Result<Option<Self>, Failure> {
        let Some(pipeline) = &connection.pipeline else { return Ok(None) };
        let source = Arc::clone(&pipeline.socket) as Source;
        // Statements that change rows are refused without a request around each of them.
        connection.drop_rows("SET SESSION TRANSACTION READ ONLY")?;
        Ok(Some(Self { connection, source, phases: VecDeque::new(), reader: None }))
    }

    fn pipeline(&mut self) -> Result<&mut Pipeline, Failure> {
        self.connection.pipeline.as_mut().ok_or_else(|| of_io(invalid()))
    }

    /// Adds the execution of a statement.
    fn execute(&mut self, prepared: &Prepared, mut execution: Vec<u8>) -> Result<(), Failure> {
        set_statement(&mut execution, prepared.id);
        self.pipeline()?.requests.extend_from_slice(&execution);
        let answer = Answer::of(Arc::clone(&prepared.columns), 0);
        self.phases.push_back(Phase::Executing(answer, prepared.id));
        Ok(())
    }

    fn start(&mut self, sql: &str, parameters: &[Value]) -> Result<bool, Failure> {
        let most = match self.phases.is_empty() {
            true => REQUESTS_MAX.min(self.connection.packet_max),
            false => JOINING_BYTES_MAX,
        };
        let mut execution = Vec::new();
        let is_short = add_execution(&mut execution, 0, parameters).is_ok()
            && sql.len() + execution.len() < most;
        if !is_short {
            return Ok(false);
        }
        let pipeline = self.pipeline()?;
        if let Some(prepared) = pipeline.statements.find(sql).cloned() {
            check_number(&prepared, parameters.len())?;
            self.execute(&prepared, execution)?;
        } else {
            add_preparation(&mut pipeline.requests, sql).map_err(of_io)?;
            let (text, count) = (sql.to_owned(), parameters.len());
            let phase = Phase::Preparing(Preparation::default(), text, count, execution);
            self.phases.push_back(phase);
        }
        Ok(true)
    }

    fn read(&mut self, rows: &mut LentRows<'_, '_>, may_read: bool) -> Result<ReadStep, Failure> {
        for _ in 0..READS_MAX {
            while let Some(step) = self.packet(rows)? {
                if !matches!(step, ReadStep::More) {
                    return Ok(step);
                }
            }
            if !rows.is_wanted {
                return Ok(ReadStep::Unwanted);
            }
            if !may_read || !self.pipeline()?.read_at_once().map_err(of_io)? {
                return Ok(ReadStep::Wait);
            }
        }
        Ok(ReadStep::More)
    }

    /// Takes the next packet. Returns `None` if none has arrived.
    fn packet(&mut self, rows: &mut LentRows<'_, '_>) -> Result<Option<ReadStep>, Failure> {
        let Some(pipeline) = &mut self.connection.pipeline else { return Ok(None) };
        let Some(packet) = pipeline.packets.next().map_err(of_io)? else { return Ok(None) };
        match self.phases.front_mut().ok_or_else(|| of_io(invalid()))? {
            Phase::Preparing(preparation, text, parameters, execution) => {
                let Some(done) = preparation.take(packet).map_err(of_io)? else {
                    return Ok(Some(ReadStep::More));
                };
                let (text, parameters) = (std::mem::take(text), *parameters);
                let execution = std::mem::take(execution);
                self.phases.pop_front();
                let prepared = done?;
                pipeline.add(&text, &prepared);
                check_number(&prepared, parameters)?;
                self.execute(&prepared, execution)?;
                self.pipeline()?.send_at_once().map_err(of_io)?;
                let is_alone = self.phases.len() == 1;
                Ok(Some(if is_alone { ReadStep::More } else { ReadStep::Last }))
            }
            Phase::Executing(answer, id) => {
                let Some(done) = answer.take(packet, rows).map_err(of_io)? else {
                    return Ok(Some(ReadStep::More));
                };
                if let Some(columns) = answer.new_columns() {
                    pipeline.statements.describe(*id, columns);
                }
                self.phases.pop_front();
                rows.reader = None;
                done.map(|count| Some(ReadStep::Done(count)))
            }
        }
    }
}

/// # Errors
/// The statement has another number of parameters.
fn check_number(prepared: &Prepared, parameters: usize) -> Result<(), Failure> {
    if prepared.parameters == parameters {
        return Ok(());
    }
    let expected = u16::try_from(prepared.parameters).unwrap_or(u16::MAX);
    Err(Failure::of(&DriverError::MismatchedStmtParams(expected, parameters).into()))
}

impl SteppedConnection for SteppedReads {
    fn dialect(&self) -> &'static Dialect {
        self.connection.own_dialect()
    }

    fn kill(&self) -> String {
        format!("KILL {}", self.connection.number())
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn has_ended(&mut self) -> bool {
        // Nothing arrives without a request, except for the end and the reason for it.
        let read = |pipeline: &mut Pipeline| pipeline.read_at_once().map_err(of_io);
        !matches!(self.pipeline().and_then(read), Ok(false))
    }

    fn add(&mut self, sql: &str, parameters: &[Value]) -> Result<bool, SqlFailure> {
        self.start(sql, parameters).map_err(|failure| fault::of(&failure))
    }

    fn send(&mut self) -> Result<(), SqlFailure> {
        let sent = self.pipeline().and_then(|pipeline| match pipeline.requests.is_empty() {
            true => Ok(()),
            false => pipeline.send_at_once().map_err(of_io),
        });
        sent.map_err(|failure| fault::of(&failure))
    }

    fn receive(
        &mut self,
        read: ReadAs<'_>,
        take: LendRow<'_>,
        may_read: bool,
    ) -> Result<ReadStep, SqlFailure> {
        let mut rows = LentRows { read, reader: self.reader.take(), is_wanted: true, take };
        let done = self.read(&mut rows, may_read);
        self.reader = rows.reader;
        done.map_err(|failure| fault::of(&failure))
    }
}

fn of_io(error: io::Error) -> Failure {
    Failure::of(&error.into())
}
