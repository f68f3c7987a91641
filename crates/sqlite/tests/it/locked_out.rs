//! One thread that serves many, while another process has the lock of the
//! file: nothing that it does waits for that lock.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, NoRows, Result, Table, Value, ValueRef};
use marmota_sqlite::{Durability, Location, Sqlite, SqliteOptions};
use marmota_store::engine::{Engine, Session, Submitted, Ticket};
use marmota_store::operation::{BatchMode, OnConflict, Operation, Outcome, Write};

use crate::database::{Calls, options};
use crate::processes::{note, start};

/// The longest that one call may take.
const CALL_MAX: Duration = Duration::from_millis(20);
/// The machine may be busy: so often is it measured, and the best counts.
const MEASURED_MAX: usize = 6;
/// When a wake-up is taken to be lost.
const LOST: Duration = Duration::from_secs(30);

struct Woken {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Insert,
    Batch,
    DeleteWhere,
    Begin,
}

fn with<T>(kind: Kind, note: &Arc<Table>, run: impl FnOnce(&mut Operation<'_>) -> T) -> T {
    match kind {
        Kind::Insert => {
            run(&mut Operation::insert(note, &[ValueRef::Absent, ValueRef::Text("ours")]))
        }
        Kind::Batch => {
            let row = vec![Value::Absent, Value::Text("ours".into())];
            let table = Arc::clone(note);
            let writes = [Write::Insert { table, row, on_conflict: OnConflict::Refuse }];
            let (mode, results) = (BatchMode::AllOrNothing, &mut Vec::new());
            run(&mut Operation::Batch { writes: &writes, links: &[], mode, once: None, results })
        }
        Kind::DeleteWhere => run(&mut Operation::DeleteWhere { table: note, filter: None }),
        Kind::Begin => run(&mut Operation::Begin),
    }
}

/// A request that writes: its session, and how far it is.
struct Request {
    kind: Kind,
    session: Box<dyn Session>,
    ticket: Option<Ticket>,
    woken: Arc<Woken>,
    result: Option<Result<()>>,
}

/// The thread: polls the requests that were woken, and keeps the longest call.
struct Server {
    note: Arc<Table>,
    requests: Vec<Request>,
    reader: Box<dyn Session>,
    longest: (Duration, String),
}

impl Server {
    fn new(engine: &Sqlite, note: &Arc<Table>) -> Self {
        let request = |kind| Request {
            kind,
            session: engine.session().unwrap(),
            ticket: None,
            woken: Arc::new(Woken { thread: thread::current(), is_woken: AtomicBool::new(true) }),
            result: None,
        };
        let requests = [Kind::Insert, Kind::Batch, Kind::DeleteWhere, Kind::Begin, Kind::Insert];
        let mut reader = engine.session().unwrap();
        reader.count(note, None);
        Self {
            note: Arc::clone(note),
            requests: requests.map(request).into_iter().collect(),
            reader,
            longest: (Duration::ZERO, String::new()),
        }
    }

    fn timed<T>(&mut self, name: &dyn std::fmt::Debug, run: impl FnOnce(&mut Self) -> T) -> T {
        let began = Instant::now();
        let done = run(self);
        self.longest =
            std::mem::take(&mut self.longest).max((began.elapsed(), format!("{name:?}")));
        done
    }

    fn turn(&mut self) {
        for at in 0..self.requests.len() {
            let request = &self.requests[at];
            let was_woken = request.woken.is_woken.swap(false, Ordering::SeqCst);
            if request.result.is_none() && was_woken {
                let kind = request.kind;
                self.timed(&kind, |server| server.step(at));
            }
        }
        self.timed(&"read", |server| {
            let note = Arc::clone(&server.note);
            server.reader.count(&note, None);
        });
    }

    fn step(&mut self, at: usize) {
        let Request { kind, session, ticket, woken, result } = &mut self.requests[at];
        let waker = Waker::from(Arc::clone(woken));
        let mut outcome = Outcome::default();
        let done = with(*kind, &self.note, |operation| match *ticket {
            None => match session.submit(None, operation, &mut NoRows, &mut outcome) {
                Ok(Submitted::Done) => Some(Ok(())),
                Ok(Submitted::Waiting(waits)) => {
                    *ticket = Some(waits);
                    waker.wake_by_ref();
                    None
                }
                Err(error) => Some(Err(error)),
            },
            Some(ticket) => {
                let mut context = Context::from_waker(&waker);
                match session.poll(ticket, operation, &mut NoRows, &mut outcome, &mut context) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                }
            }
        });
        if matches!((&done, *kind), (Some(Ok(())), Kind::Begin)) {
            session.run(Operation::Rollback).unwrap();
        }
        *result = done;
    }

    fn serve(&mut self, mut is_over: impl FnMut(&[Request]) -> bool) {
        let began = Instant::now();
        while !is_over(&self.requests) {
            self.turn();
            assert!(began.elapsed() < LOST, "a request was not woken");
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn finish(&mut self) -> Vec<(Kind, Option<Error>)> {
        self.serve(|requests| requests.iter().all(|request| request.result.is_some()));
        let result = |request: Request| (request.kind, request.result.and_then(Result::err));
        self.requests.drain(..).map(result).collect()
    }
}

/// Opens the file, has another process take its lock, and gives how long the
/// longest call took; the best of several.
fn measured(
    options: &SqliteOptions,
    run: impl Fn(&Arc<Table>, &Sqlite, &mut Child) -> (Duration, String),
) {
    let mut longest = Vec::new();
    for _ in 0..MEASURED_MAX {
        let (folder, note) = (tempfile::tempdir().unwrap(), note());
        let path = folder.path().join("a.db");
        let engine = Sqlite::open(Location::File(path.clone()), options.clone()).unwrap();
        engine.prepare(std::slice::from_ref(&note), 0).unwrap();
        let (mut child, _said) = start("processes::holds_a_write", "MARMOTA_HOLD_WRITE", &path);
        let took = run(&note, &engine, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        let is_short = took.0 < CALL_MAX;
        longest.push(took);
        if is_short {
            return;
        }
    }
    panic!("a call kept the thread: {longest:?}");
}

fn each_durability() -> impl Iterator<Item = SqliteOptions> {
    // Without waits for the disk there are no groups: each write is alone.
    let each = [Durability::Full, Durability::None];
    each.into_iter().map(|durability| SqliteOptions { durability, ..options() })
}

#[test]
fn requests_are_answered_while_writes_wait_for_another_process() {
    for options in each_durability() {
        measured(&options, |note, engine, child| {
            let mut server = Server::new(engine, note);
            let until = Instant::now() + Duration::from_millis(200);
            server.serve(|_| Instant::now() >= until);
            let early = server.requests.iter().find(|request| request.result.is_some());
            assert!(early.is_none(), "{:?} did not wait", early.map(|request| request.kind));
            child.kill().unwrap();
            child.wait().unwrap();
            for (kind, error) in server.finish() {
                assert!(error.is_none(), "{kind:?}: {error:?}");
            }
            server.longest
        });
    }
}

#[test]
fn writes_that_wait_too_long_for_another_process_name_it() {
    for options in each_durability() {
        let options = SqliteOptions { busy_timeout_ms: 300, ..options };
        measured(&options, |note, engine, child| {
            let (mut server, began) = (Server::new(engine, note), Instant::now());
            let errors = server.finish();
            assert!(began.elapsed() >= Duration::from_millis(300));
            for (kind, error) in errors {
                let error = error.unwrap_or_else(|| panic!("{kind:?} took place"));
                assert_eq!(error.kind(), ErrorKind::Busy, "{kind:?}: {error}");
                let who = format!("process {} (", child.id());
                assert!(error.to_string().contains(&who), "{kind:?}: {error}");
            }
            server.longest
        });
    }
}

#[test]
fn a_write_that_is_given_up_leaves_the_others_their_turn() {
    measured(&options(), |note, engine, child| {
        let mut server = Server::new(engine, note);
        let until = Instant::now() + Duration::from_millis(100);
        server.serve(|_| Instant::now() >= until);
        // The first of them leads, and its session goes with what waits in it.
        server.timed(&"drop", |server| drop(server.requests.remove(0)));
        child.kill().unwrap();
        child.wait().unwrap();
        for (kind, error) in server.finish() {
            assert!(error.is_none(), "{kind:?}: {error:?}");
        }
        server.longest
    });
}
