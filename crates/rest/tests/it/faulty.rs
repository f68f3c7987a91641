//! An engine that fails, and what clients see of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use marmota_model::{Error, ErrorKind, Result, RowSink, Table};
use marmota_store::Durability;
use marmota_store::engine::{Capability, Engine, Session, Submitted, Ticket};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::plan::{Destructive, Plan};

use crate::service::Service;
use crate::slow::slow;

const KINDS: [(ErrorKind, u16); 15] = [
    (ErrorKind::NotFound, 404),
    (ErrorKind::Conflict, 409),
    (ErrorKind::Stale, 412),
    (ErrorKind::Invalid, 400),
    (ErrorKind::Denied, 403),
    (ErrorKind::Busy, 503),
    (ErrorKind::Timeout, 504),
    (ErrorKind::Lost, 502),
    (ErrorKind::Refused, 503),
    (ErrorKind::Unsupported, 501),
    (ErrorKind::Io, 503),
    (ErrorKind::Protocol, 500),
    (ErrorKind::Engine, 500),
    (ErrorKind::Closed, 503),
    (ErrorKind::Bug, 500),
];

/// Fails each operation with the kind whose place is told.
struct Faulty(Capability, Arc<AtomicUsize>);

impl Engine for Faulty {
    fn capability(&self) -> &Capability {
        &self.0
    }

    fn plan(&self, _: &[Arc<Table>], _: u32) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn migrate(&self, _: &[Arc<Table>], _: u32, _: &Destructive) -> Result<Plan> {
        Ok(Plan::default())
    }

    fn open_table(&self, _: &Arc<Table>) -> Result<bool> {
        Ok(false)
    }

    fn session(&self) -> Result<Box<dyn Session>> {
        Ok(Box::new(FaultySession(Arc::clone(&self.1))))
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

struct FaultySession(Arc<AtomicUsize>);

impl FaultySession {
    fn error(&self) -> Error {
        let (kind, _) = KINDS[self.0.load(Ordering::Relaxed)];
        Error::new(kind, "/secret/people.db: disk I/O error").with_source("os error 5")
    }
}

impl Session for FaultySession {
    fn submit(
        &mut self,
        _: Option<Durability>,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
    ) -> Result<Submitted> {
        Err(self.error())
    }

    fn poll(
        &mut self,
        _: Ticket,
        _: &mut Operation<'_>,
        _: &mut dyn RowSink,
        _: &mut Outcome,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(Err(self.error()))
    }

    fn cancel(&mut self, _: Ticket) {}
}

fn check(service: &Service, kind_at: &AtomicUsize) {
    let client = &mut service.client();
    let row = r#"{"first_name":"a","last_name":"b","year_of_birth":1}"#;
    let batch = r#"{"operations":[{"delete":"city","key":"a"}]}"#;
    for (at, (kind, status)) in KINDS.into_iter().enumerate() {
        kind_at.store(at, Ordering::Relaxed);
        for (request, body) in [
            ("GET /api/person/1", ""),
            ("GET /api/person", ""),
            ("GET /api/person?count=true", ""),
            ("GET /api/person/1/photo", ""),
            ("POST /api/person", row),
            (
                "POST /api/person",
                "[{\"first_name\":\"a\",\"last_name\":\"b\",\"year_of_birth\":1}]",
            ),
            ("PATCH /api/person/1", "{}"),
            ("PUT /api/person/1", row),
            ("PUT /api/city/a", r#"{"name":"x"}"#),
            ("DELETE /api/person/1", ""),
            ("DELETE /api/person?filter=id=1", ""),
            ("POST /api/person/1/visits/increment", r#"{"by":1}"#),
            ("POST /api/batch", batch),
        ] {
            let answer = client.json(request, body).refuses(status);
            let is_inside = status == 500
                || matches!(kind, ErrorKind::Io | ErrorKind::Lost | ErrorKind::Refused);
            assert!(!is_inside || !answer.text().contains("secret"), "{}", answer.text());
            let retry = matches!(kind, ErrorKind::Busy | ErrorKind::Io | ErrorKind::Refused);
            assert_eq!(answer.header("retry-after"), retry.then_some("1"), "{request}");
        }
    }
}

#[test]
fn every_kind_of_failure_has_its_status() {
    let at = Arc::new(AtomicUsize::new(0));
    let engine = || Faulty(Capability::new("faulty", false), Arc::clone(&at));
    check(&Service::new("faulty", engine()), &at);
    check(&Service::new("slow faulty", slow(engine())), &at);
}
