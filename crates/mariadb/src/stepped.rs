//! Reads on a connection that an event loop owns: no call waits for the server.

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

/// What the server does.
enum Phase {
    Idle,
    /// It prepares the statement with this text, which has this number of parameters.
    Preparing(Preparation, String, usize),
    /// It executes the statement with this number.
    Executing(Answer, u32),
}

/// A connection on which an event loop reads.
pub(crate) struct SteppedReads {
    connection: Connection,
    source: Source,
    phase: Phase,
    /// The request to execute a statement that is being prepared.
    execution: Vec<u8>,
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
        let (phase, execution, reader) = (Phase::Idle, Vec::new(), None);
        Ok(Some(Self { connection, source, phase, execution, reader }))
    }

    fn pipeline(&mut self) -> io::Result<&mut Pipeline> {
        self.connection.pipeline.as_mut().ok_or_else(invalid)
    }

    /// Sends the execution of a statement.
    fn execute(&mut self, prepared: &Prepared, parameters: usize) -> Result<(), Failure> {
        if prepared.parameters != parameters {
            let expected = u16::try_from(prepared.parameters).unwrap_or(u16::MAX);
            let error = DriverError::MismatchedStmtParams(expected, parameters);
            self.phase = Phase::Idle;
            return Err(Failure::of(&error.into()));
        }
        set_statement(&mut self.execution, prepared.id);
        let execution = std::mem::take(&mut self.execution);
        let pipeline = self.pipeline().map_err(of_io)?;
        pipeline.requests.extend_from_slice(&execution);
        pipeline.send_at_once().map_err(of_io)?;
        self.execution = execution;
        self.phase = Phase::Executing(Answer::of(Arc::clone(&prepared.columns), 0), prepared.id);
        Ok(())
    }

    fn step(&mut self, read: ReadAs<'_>, take: LendRow<'_>) -> Result<ReadStep, Failure> {
        let mut rows = LentRows { read, reader: self.reader.take(), is_wanted: true, take };
        let done = self.read(&mut rows);
        self.reader = rows.reader;
        done
    }

    fn read(&mut self, rows: &mut LentRows<'_, '_>) -> Result<ReadStep, Failure> {
        for _ in 0..READS_MAX {
            while let Some(done) = self.packet(rows)? {
                if let ReadStep::Done(_) = done {
                    return Ok(done);
                }
            }
            if !rows.is_wanted {
                return Ok(ReadStep::Done(Default::default()));
            }
            if !self.pipeline().and_then(Pipeline::read_at_once).map_err(of_io)? {
                return Ok(ReadStep::Wait);
            }
        }
        Ok(ReadStep::More)
    }

    /// Takes the next packet. Returns `None` if none has arrived.
    fn packet(&mut self, rows: &mut LentRows<'_, '_>) -> Result<Option<ReadStep>, Failure> {
        let Some(pipeline) = &mut self.connection.pipeline else { return Ok(None) };
        let Some(packet) = pipeline.packets.next().map_err(of_io)? else { return Ok(None) };
        match &mut self.phase {
            Phase::Idle => Err(of_io(invalid())),
            Phase::Preparing(preparation, text, parameters) => {
                let Some(done) = preparation.take(packet).map_err(of_io)? else {
                    return Ok(Some(ReadStep::More));
                };
                let (text, parameters) = (std::mem::take(text), *parameters);
                let prepared = self.ended(done)?;
                self.pipeline().map_err(of_io)?.add(&text, &prepared);
                self.execute(&prepared, parameters).map(|()| Some(ReadStep::More))
            }
            Phase::Executing(answer, id) => {
                let Some(done) = answer.take(packet, rows).map_err(of_io)? else {
                    return Ok(Some(ReadStep::More));
                };
                if let Some(columns) = answer.new_columns() {
                    pipeline.statements.describe(*id, columns);
                }
                self.ended(done).map(|count| Some(ReadStep::Done(count)))
            }
        }
    }

    /// Notes that the server has answered.
    fn ended<T>(&mut self, done: Result<T, Failure>) -> Result<T, Failure> {
        self.phase = Phase::Idle;
        done
    }
}

impl SteppedConnection for SteppedReads {
    fn dialect(&self) -> &'static Dialect {
        self.connection.own_dialect()
    }

    fn id(&self) -> Option<u64> {
        Some(self.connection.number())
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    fn has_ended(&mut self) -> bool {
        // Nothing arrives without a request, except for the end and the reason for it.
        !self.is_idle() || !matches!(self.pipeline().and_then(Pipeline::read_at_once), Ok(false))
    }

    fn send(&mut self, sql: &str, parameters: &[Value]) -> Result<bool, SqlFailure> {
        self.reader = None;
        self.execution.clear();
        let most = REQUESTS_MAX.min(self.connection.packet_max);
        let is_short = add_execution(&mut self.execution, 0, parameters).is_ok()
            && sql.len() + self.execution.len() < most;
        if !is_short {
            self.execution = Vec::new();
            return Ok(false);
        }
        let start = |stepped: &mut Self| {
            let pipeline = stepped.pipeline().map_err(of_io)?;
            if let Some(prepared) = pipeline.statements.find(sql).cloned() {
                return stepped.execute(&prepared, parameters.len());
            }
            add_preparation(&mut pipeline.requests, sql).map_err(of_io)?;
            pipeline.send_at_once().map_err(of_io)?;
            let preparation = Preparation::default();
            stepped.phase = Phase::Preparing(preparation, sql.to_owned(), parameters.len());
            Ok(())
        };
        start(self).map(|()| true).map_err(|failure| fault::of(&failure))
    }

    fn receive(&mut self, read: ReadAs<'_>, take: LendRow<'_>) -> Result<ReadStep, SqlFailure> {
        self.step(read, take).map_err(|failure| fault::of(&failure))
    }
}

fn of_io(error: io::Error) -> Failure {
    Failure::of(&error.into())
}
