//! A session over several databases: one session on each, opened when it is needed, and the
//! database that the transaction has written to.
//!
//! | operation | goes to |
//! |---|---|
//! | of a table | the database of the table |
//! | batch | the database of all its writes; two are refused |
//! | begin | all databases, in order; it waits at each if it must |
//! | commit, rollback, savepoints | all databases; the one that was written to comes last, and its result counts |
//! | SQL | the hub, or the named database, with tables that others lend |
//!
//! A transaction remembers the first database that it writes to, and refuses a write to another. So
//! a commit concerns one database, and on the others there is nothing to commit.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, NoRows, Result, RowSink, Table};
use smallvec::SmallVec;

use super::{Database, Homes, hub};
use crate::contract::borrowed_table::{BorrowedTable, BorrowedTables};
use crate::contract::durability::Durability;
use crate::contract::engine::{Session, Submitted, Ticket};
use crate::contract::operation::{Operation, Outcome};
use crate::contract::sql::{Lender, SqlCall, Wanted};
use crate::rows::refusal::{self, table_kept};
use crate::runtime::in_flight::InFlight;

/// How long a statement waits for tables of another database.
const LEND_WAIT_MAX: Duration = Duration::from_secs(5);

/// A session on several databases.
pub(super) struct DatabasesSession {
    /// The databases.
    databases: Arc<[Database]>,
    /// The database of each table.
    homes: Arc<Homes>,
    /// A session on each database, once it was needed.
    sessions: Sessions,
    /// The open transaction.
    transaction: Option<Transaction>,
    /// The operations that wait, by the tickets of this session.
    waiting: InFlight<Waiting>,
}

/// Sessions by the index of their database.
type Sessions = SmallVec<[Option<Box<dyn Session>>; 4]>;

/// A transaction that is open on all databases.
#[derive(Default)]
struct Transaction {
    /// The database that it has written to.
    written: Option<usize>,
}

/// An operation that waits in one of the sessions.
#[derive(Clone, Copy)]
struct Waiting {
    /// The current step.
    step: Step,
    /// The durability of the operation, for steps that are still to be submitted.
    durability: Option<Durability>,
}

/// The tickets in it are those of the database's session.
#[derive(Clone, Copy)]
enum Step {
    /// An operation, on the database at this index.
    At(usize, Ticket),
    /// The begin of a transaction, which waits at the database with this index.
    Begin(usize, Ticket),
    /// A statement that waits for the tables that it reads, until this deadline.
    Lend(Instant),
}

/// Lends tables of the session's other databases.
struct Others<'s> {
    /// All databases.
    databases: &'s [Database],
    /// The sessions; that of the statement itself was taken out.
    sessions: &'s mut [Option<Box<dyn Session>>],
    /// The waker for a table that cannot be lent yet.
    waker: Option<&'s Waker>,
    /// Set if a table cannot be lent yet; then the statement is submitted again later.
    must_wait: bool,
}

impl Lender for Others<'_> {
    fn lend(&mut self, wanted: &[Wanted]) -> Result<BorrowedTables> {
        if let [first, rest @ ..] = wanted
            && rest.iter().all(|one| one.database == first.database)
        {
            let tables: SmallVec<[&Table; 4]> = wanted.iter().map(|one| &*one.table).collect();
            return self.lend_of(first.database, &tables);
        }
        let mut lent: Vec<Option<Arc<dyn BorrowedTable>>> = wanted.iter().map(|_| None).collect();
        let mut places: SmallVec<[usize; 4]> = wanted.iter().map(|one| one.database).collect();
        // Always in the same order, so that no two statements wait for each other.
        places.sort_unstable();
        places.dedup();
        for place in places {
            let of_place = |at: &usize| wanted[*at].database == place;
            let at: SmallVec<[usize; 8]> = (0..wanted.len()).filter(of_place).collect();
            let tables: Vec<&Table> = at.iter().map(|&at| &*wanted[at].table).collect();
            for (at, table) in at.into_iter().zip(self.lend_of(place, &tables)?) {
                lent[at] = Some(table);
            }
        }
        Ok(lent.into_iter().flatten().collect())
    }
}

impl Others<'_> {
    /// Lends the tables of one database.
    fn lend_of(&mut self, place: usize, tables: &[&Table]) -> Result<BorrowedTables> {
        let Some(session) = self.sessions.get_mut(place) else { return Ok(BorrowedTables::new()) };
        let session = match session {
            Some(session) => session,
            none => none.insert(self.databases[place].engine.session()?),
        };
        session.lend(tables, self.waker)?.ok_or_else(|| {
            self.must_wait = true;
            table_kept(LEND_WAIT_MAX)
        })
    }
}

impl DatabasesSession {
    /// Creates a session without sessions on the databases.
    pub(super) fn new(databases: Arc<[Database]>, homes: Arc<Homes>) -> Self {
        let sessions = databases.iter().map(|_| None).collect();
        Self { databases, homes, sessions, transaction: None, waiting: InFlight::new() }
    }

    /// Returns the session on a database, which is opened at its first use.
    #[inline]
    fn session(&mut self, place: usize) -> Result<&mut dyn Session> {
        let session = &mut self.sessions[place];
        Ok(&mut **match session {
            Some(session) => session,
            none => none.insert(self.databases[place].engine.session()?),
        })
    }

    /// Returns the index of the database that an operation is for.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a batch on two databases, or an aggregation where the engine
    /// has none.
    fn place_of(&self, operation: &Operation<'_>) -> Result<usize> {
        match operation {
            Operation::Batch { writes, .. } => {
                let Some(first) = writes.first() else { return Ok(0) };
                let home = self.homes.of(first.table())?;
                for write in &writes[1..] {
                    let other = self.homes.of(write.table())?;
                    if other != home {
                        return Err(self.two_databases("a batch", home, other));
                    }
                }
                Ok(home)
            }
            Operation::Sql { statement, .. } => self.place_of_sql(statement),
            Operation::Aggregate { table, .. } => {
                let place = self.homes.of(table)?;
                let capability = self.databases[place].engine.capability();
                match capability.aggregation {
                    true => Ok(place),
                    false => Err(crate::contract::capability::no_aggregation(capability.name)),
                }
            }
            operation => match operation.table() {
                Some(table) => self.homes.of(table),
                None => Err(Error::new(
                    ErrorKind::Unsupported,
                    "this operation is not supported by a store with several databases",
                )),
            },
        }
    }

    /// Returns the index of the database that a statement names, otherwise that of the hub.
    fn place_of_sql(&self, statement: &SqlCall<'_>) -> Result<usize> {
        let Some(name) = statement.database else {
            return hub(&self.databases).ok_or_else(|| crate::contract::sql::no_sql("databases"));
        };
        let place = self.databases.iter().position(|database| database.name == name);
        let place = place.ok_or_else(|| {
            let names: Vec<&str> = self.databases.iter().map(|one| &*one.name).collect();
            let name = marmota_model::text::excerpt(name);
            let message = format!("there is no database `{name}`; there are: {}", names.join(", "));
            Error::new(ErrorKind::Invalid, message)
        })?;
        let capability = self.databases[place].engine.capability();
        if capability.sql { Ok(place) } else { Err(crate::contract::sql::no_sql(capability.name)) }
    }

    /// The error for a write to a second database; `what` begins the message.
    #[cold]
    fn two_databases(&self, what: &str, home: usize, other: usize) -> Error {
        let (home, other) = (&self.databases[home].name, &self.databases[other].name);
        let message = format!(
            "{what} cannot write to two databases (`{home}` and `{other}`), which cannot be \
             committed together; write to them one after the other, or keep the tables in one \
             database"
        );
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Records that a transaction writes to a database.
    ///
    /// Without a transaction it does nothing.
    fn note_write(&mut self, place: usize) -> Result<()> {
        let written = self.transaction.as_ref().and_then(|open| open.written);
        match (written, &mut self.transaction) {
            (Some(written), _) if written != place => {
                Err(self.two_databases("a transaction", written, place))
            }
            (_, Some(open)) => {
                open.written = Some(place);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Keeps a step that waits, under a ticket of this session.
    fn wait(&mut self, step: Step, durability: Option<Durability>) -> Submitted {
        Submitted::Waiting(self.waiting.add(Waiting { step, durability }))
    }

    /// Begins a transaction on the databases from `place` on. Returns where it has to wait, if so.
    ///
    /// If one of them fails, the transaction is rolled back on those before it.
    fn begin_from(&mut self, place: usize) -> Result<Option<(usize, Ticket)>> {
        for place in place..self.databases.len() {
            let begun = self.session(place).and_then(|session| {
                session.submit(None, &mut Operation::Begin, &mut NoRows, &mut Outcome::default())
            });
            match begun {
                Ok(Submitted::Done) => {}
                Ok(Submitted::Waiting(ticket)) => return Ok(Some((place, ticket))),
                Err(error) => {
                    self.roll_back(place);
                    return Err(error);
                }
            }
        }
        self.transaction = Some(Transaction::default());
        Ok(None)
    }

    /// Rolls back the transaction on the first `count` databases.
    fn roll_back(&mut self, count: usize) {
        for session in self.sessions[..count].iter_mut().flatten() {
            // Nothing was done in it; and if this fails, dropping the session rolls back as well.
            let outcome = &mut Outcome::default();
            let _ = session.submit(None, &mut Operation::Rollback, &mut NoRows, outcome);
        }
    }

    /// Begins a transaction on all databases.
    fn submit_begin(&mut self) -> Result<Submitted> {
        if self.transaction.is_some() {
            return Err(refusal::transaction_is_open());
        }
        Ok(match self.begin_from(0)? {
            None => Submitted::Done,
            Some((place, ticket)) => self.wait(Step::Begin(place, ticket), None),
        })
    }

    /// Executes a step of the open transaction on all databases.
    fn submit_to_all(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let ends = matches!(operation, Operation::Commit | Operation::Rollback);
        let written = match &self.transaction {
            Some(open) => open.written,
            None => return Err(refusal::no_transaction()),
        };
        if ends {
            self.transaction = None;
        }
        // The database that was written to comes last: its result is the answer.
        let last = written.unwrap_or(0);
        let others = (0..self.databases.len()).filter(|&place| place != last);
        let mut failed = Ok(());
        for place in others.collect::<SmallVec<[usize; 8]>>() {
            let ignored = &mut Outcome::default();
            let done = self.session(place)?.submit(durability, operation, &mut NoRows, ignored);
            match done {
                // Nothing was written there, so there is no need to wait.
                Ok(Submitted::Waiting(ticket)) => self.session(place)?.cancel(ticket),
                Ok(Submitted::Done) => {}
                Err(error) => failed = Err(error),
            }
        }
        let done = self.session(last)?.submit(durability, operation, &mut NoRows, outcome)?;
        failed?;
        Ok(match done {
            Submitted::Done => Submitted::Done,
            Submitted::Waiting(ticket) => self.wait(Step::At(last, ticket), durability),
        })
    }

    /// Executes a statement, with the tables that other databases lend it.
    ///
    /// Returns the step in which it waits, if so. If a table cannot be lent, the statement has
    /// changed nothing, and is submitted again when `waker` was woken.
    fn submit_sql(
        &mut self,
        durability: Option<Durability>,
        statement: SqlCall<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        waker: Option<&Waker>,
    ) -> Result<Option<Step>> {
        let place = self.place_of_sql(&statement)?;
        if statement.writes {
            self.note_write(place)?;
        }
        // The sessions of the others are used while this one runs.
        let mut own = match self.sessions[place].take() {
            Some(own) => own,
            None => self.databases[place].engine.session()?,
        };
        let databases = &*self.databases;
        let mut others =
            Others { databases, sessions: &mut self.sessions, waker, must_wait: false };
        let statement = SqlCall { database: None, ..statement };
        let mut operation = Operation::Sql { statement, lender: Some(&mut others) };
        let submitted = own.submit(durability, &mut operation, sink, outcome);
        let must_wait = others.must_wait;
        self.sessions[place] = Some(own);
        match submitted {
            Err(_) if must_wait => Ok(Some(Step::Lend(Instant::now() + LEND_WAIT_MAX))),
            Err(error) => Err(error),
            Ok(Submitted::Done) => Ok(None),
            Ok(Submitted::Waiting(ticket)) => Ok(Some(Step::At(place, ticket))),
        }
    }

    /// Polls a statement that waits in its own database.
    fn poll_sql(
        &mut self,
        (place, ticket): (usize, Ticket),
        statement: SqlCall<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Step>>> {
        let Some(mut own) = self.sessions[place].take() else { return Poll::Ready(Ok(None)) };
        let databases = &*self.databases;
        let mut others =
            Others { databases, sessions: &mut self.sessions, waker: None, must_wait: false };
        let statement = SqlCall { database: None, ..statement };
        let mut operation = Operation::Sql { statement, lender: Some(&mut others) };
        let polled = own.poll(ticket, &mut operation, sink, outcome, context);
        let must_wait = others.must_wait;
        self.sessions[place] = Some(own);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(_)) if must_wait => {
                Poll::Ready(Ok(Some(Step::Lend(Instant::now() + LEND_WAIT_MAX))))
            }
            Poll::Ready(done) => Poll::Ready(done.map(|()| None)),
        }
    }
}

impl Session for DatabasesSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        match operation {
            Operation::Begin => return self.submit_begin(),
            Operation::Commit
            | Operation::Rollback
            | Operation::Savepoint(_)
            | Operation::Release(_)
            | Operation::RollbackTo(_) => {
                return self.submit_to_all(durability, operation, outcome);
            }
            Operation::Sql { statement, .. } => {
                let step = self.submit_sql(durability, *statement, sink, outcome, None)?;
                return Ok(step.map_or(Submitted::Done, |step| self.wait(step, durability)));
            }
            _ => {}
        }
        let place = self.place_of(operation)?;
        if operation.is_write() && self.transaction.is_some() {
            self.note_write(place)?;
        }
        match self.session(place)?.submit(durability, operation, sink, outcome)? {
            Submitted::Done => Ok(Submitted::Done),
            Submitted::Waiting(ticket) => Ok(self.wait(Step::At(place, ticket), durability)),
        }
    }

    fn share_snapshot(&mut self, is_shared: bool) {
        for session in self.sessions.iter_mut().flatten() {
            session.share_snapshot(is_shared);
        }
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        loop {
            let Some(&Waiting { step, durability }) = self.waiting.get(ticket) else {
                return Poll::Ready(Err(refusal::not_waiting()));
            };
            let next = match (step, &mut *operation) {
                (Step::At(place, inner), Operation::Sql { statement, .. }) => {
                    match self.poll_sql((place, inner), *statement, sink, outcome, context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(next) => next,
                    }
                }
                (Step::Lend(until), Operation::Sql { statement, .. }) => {
                    let statement = *statement;
                    let waker = Some(context.waker());
                    match self.submit_sql(durability, statement, sink, outcome, waker) {
                        Ok(Some(Step::Lend(_))) if Instant::now() < until => return Poll::Pending,
                        Ok(Some(Step::Lend(_))) => Err(table_kept(LEND_WAIT_MAX)),
                        next => next,
                    }
                }
                (Step::Begin(place, inner), _) => {
                    let begun = self.session(place).map(|session| {
                        session.poll(inner, &mut Operation::Begin, &mut NoRows, outcome, context)
                    });
                    match begun {
                        Ok(Poll::Pending) => return Poll::Pending,
                        Ok(Poll::Ready(Ok(()))) => self
                            .begin_from(place + 1)
                            .map(|next| next.map(|(at, ticket)| Step::Begin(at, ticket))),
                        Ok(Poll::Ready(Err(error))) | Err(error) => {
                            self.roll_back(place);
                            Err(error)
                        }
                    }
                }
                (Step::At(place, inner), operation) => match self.session(place) {
                    Ok(session) => match session.poll(inner, operation, sink, outcome, context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(done) => done.map(|()| None),
                    },
                    Err(error) => Err(error),
                },
                (Step::Lend(_), _) => Ok(None),
            };
            match next {
                // It is polled at once, so that it registers the waker.
                Ok(Some(step)) => self.waiting[ticket].step = step,
                done => {
                    self.waiting.remove(ticket);
                    return Poll::Ready(done.map(drop));
                }
            }
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        let Some(waiting) = self.waiting.remove(ticket) else { return };
        match waiting.step {
            Step::At(place, inner) => {
                if let Some(session) = &mut self.sessions[place] {
                    session.cancel(inner);
                }
            }
            Step::Begin(place, inner) => {
                if let Some(session) = &mut self.sessions[place] {
                    session.cancel(inner);
                }
                self.roll_back(place);
            }
            Step::Lend(_) => {}
        }
    }
}
