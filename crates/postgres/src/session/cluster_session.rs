//! [`ClusterSession`]: a session on a cluster, whose standbys can execute reads.
//!
//! A read that prefers a replica is submitted to a session on a standby, which neither waits for a
//! connection nor repeats a read on another one: if anything fails before the first row, the session
//! on the primary executes the read. So the rows are those of one server, at one time.
//!
//! A read after a position first takes the place in the primary's log at which all is visible that
//! was acknowledged, and then waits until the standby has applied the log up to it:
//!
//! ```text
//! primary: probe ──► standby: probe ──► standby: read
//!                      ▲      │ not yet
//!                      └ pause┘
//! ```
//!
//! The probe of the standby uses the connection of the read, or one that was made before it. A
//! standby that crashes and starts again may be at an earlier place than before, but has closed all
//! connections.
//!
//! While a standby reads, it may stop: its machine keeps the connection, and sends nothing. After a
//! second of silence a thread finds out whether the standby accepts a connection. If it gives no
//! answer, its connections are closed, and the primary reads. A standby that takes long is waited for.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use marmota_model::{ErrorKind, Result, RowSink, ValueRef};
use marmota_store::Durability;
use marmota_store::change::ReplicaRead;
use marmota_store::engine::{Session, Submitted, Ticket, wake_at};
use marmota_store::in_flight::InFlight;
use marmota_store::operation::{Operation, Outcome};

use super::PostgresSession;
use super::probe::Progress;
use super::replicas::Replicas;
use crate::in_flight::may_leave_reader;

/// The bit of a ticket that marks a read which prefers a replica. Others are those of the primary's
/// session, which never has so many operations.
const OF_REPLICA: u64 = 1 << 31;
/// The pause between two probes of a standby.
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// The time without a row after which it is found out whether a standby still runs.
const SILENCE: Duration = Duration::from_secs(1);

/// A session on a cluster.
pub(crate) struct ClusterSession {
    primary: PostgresSession,
    replicas: Arc<Replicas>,
    /// The sessions on the servers as replicas, opened at their first use.
    sessions: Vec<Option<PostgresSession>>,
    reads: InFlight<PreferredRead>,
}

/// A read that prefers a replica.
struct PreferredRead {
    server: usize,
    /// The number of the commit that it must see, and the time until which it waits for that.
    after: Option<(i64, Instant)>,
    stage: ReadStage,
    /// True if the alarm for the end of the wait is set.
    has_alarm: bool,
    /// The number of rows that were passed on.
    lent: u64,
    /// The time at which the standby is checked, and the rows that were passed on when it was set.
    check: Option<(Instant, u64)>,
}

/// The stage of such a read, with the ticket of the session that works on it.
#[derive(Clone, Copy)]
enum ReadStage {
    /// Probing the primary.
    Primary(Ticket),
    /// Probing the replica.
    Replica(Ticket, Progress),
    /// Before the next probe of the replica.
    Pause(Instant, Progress),
    /// The replica reads.
    Read(Ticket),
    /// The primary reads.
    Fallback(Ticket),
}

/// Counts the rows that are passed on.
struct Noting<'s> {
    sink: &'s mut dyn RowSink,
    lent: &'s mut u64,
}

impl RowSink for Noting<'_> {
    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        *self.lent += 1;
        self.sink.row(row)
    }
}

impl ClusterSession {
    pub(crate) fn new(replicas: &Arc<Replicas>) -> Self {
        Self {
            primary: PostgresSession::new(Arc::clone(replicas.primary())),
            replicas: Arc::clone(replicas),
            sessions: (0..replicas.count()).map(|_| None).collect(),
            reads: InFlight::new(),
        }
    }

    /// Returns the session on a server as a replica.
    fn replica(&mut self, server: usize) -> &mut PostgresSession {
        let shared = self.replicas.shared(server);
        self.sessions[server].get_or_insert_with(|| PostgresSession::new(Arc::clone(shared)))
    }

    /// Begins a read on a replica, or what precedes it. `None` if the primary has to read.
    fn begin(
        &mut self,
        server: usize,
        after: Option<(i64, Instant)>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Option<Submitted> {
        let stage = match after {
            Some((number, _)) => {
                let replicas = Arc::clone(&self.replicas);
                let text = &replicas.probes()?.primary;
                ReadStage::Primary(self.primary.begin_probe(text, number).ok()?)
            }
            None => match self.replica(server).submit(None, operation, sink, outcome).ok()? {
                Submitted::Done => return None,
                Submitted::Waiting(ticket) => ReadStage::Read(ticket),
            },
        };
        let read = PreferredRead { server, after, stage, has_alarm: false, lent: 0, check: None };
        let Ticket(number) = self.reads.add(read);
        Some(Submitted::Waiting(Ticket(number | OF_REPLICA)))
    }

    /// Continues a read. `Ok(None)` if the primary has to read.
    fn advance(
        &mut self,
        read: &mut PreferredRead,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<()>>> {
        let server = read.server;
        loop {
            match read.stage {
                ReadStage::Primary(ticket) => {
                    match ready!(self.primary.poll_probe(ticket, context.waker())) {
                        Ok(wanted) if wanted.is_known() => {
                            read.stage = ReadStage::Pause(Instant::now(), wanted);
                        }
                        _ => return Poll::Ready(Ok(None)),
                    }
                }
                ReadStage::Pause(until, wanted) => {
                    let Some((number, deadline)) = read.after else {
                        return Poll::Ready(Ok(None));
                    };
                    let now = Instant::now();
                    if now >= deadline {
                        // Others would wait for it as well.
                        self.replicas.leave_alone(server);
                        return Poll::Ready(Ok(None));
                    }
                    if now < until {
                        // Without an alarm the task polls until then.
                        if !wake_at(until.min(deadline), context.waker().clone()) {
                            context.waker().wake_by_ref();
                        }
                        return Poll::Pending;
                    }
                    let replicas = Arc::clone(&self.replicas);
                    let Some(probes) = replicas.probes() else { return Poll::Ready(Ok(None)) };
                    match self.replica(server).begin_probe(&probes.replica, number) {
                        Ok(ticket) => read.stage = ReadStage::Replica(ticket, wanted),
                        Err(_) => return Poll::Ready(Ok(None)),
                    }
                }
                ReadStage::Replica(ticket, wanted) => {
                    let probed = self.replica(server).poll_probe(ticket, context.waker());
                    let Poll::Ready(probed) = probed else {
                        let deadline = read.after.map_or_else(Instant::now, |(_, until)| until);
                        if Instant::now() >= deadline {
                            self.replicas.leave_alone(server);
                            return Poll::Ready(Ok(None));
                        }
                        if !std::mem::replace(&mut read.has_alarm, true) {
                            let _ = wake_at(deadline, context.waker().clone());
                        }
                        return Poll::Pending;
                    };
                    // The ticket is spent.
                    let pause = Instant::now() + PROBE_PAUSE;
                    read.stage = ReadStage::Pause(pause, wanted);
                    match probed {
                        Ok(progress) if progress.has_applied(&wanted) => {
                            let replica = self.replica(server);
                            match replica.submit(None, operation, sink, outcome) {
                                Ok(Submitted::Waiting(ticket)) => {
                                    read.stage = ReadStage::Read(ticket);
                                }
                                _ => return Poll::Ready(Ok(None)),
                            }
                        }
                        Ok(progress) if progress.is_known() => {}
                        Ok(_) => {
                            self.replicas.leave_alone(server);
                            return Poll::Ready(Ok(None));
                        }
                        Err(error) => {
                            self.note_failure(server, error.kind());
                            return Poll::Ready(Ok(None));
                        }
                    }
                }
                ReadStage::Read(ticket) => {
                    let mut sink = Noting { sink, lent: &mut read.lent };
                    let replica = self.replica(server);
                    let polled = replica.poll(ticket, operation, &mut sink, outcome, context);
                    let Poll::Ready(done) = polled else {
                        self.check_standby(read, context);
                        return Poll::Pending;
                    };
                    match done {
                        Ok(()) => {
                            outcome.from_replica = true;
                            self.replicas.note_read();
                            return Poll::Ready(Ok(Some(())));
                        }
                        Err(error) if read.lent > 0 || error.kind() == ErrorKind::Timeout => {
                            return Poll::Ready(Err(error));
                        }
                        Err(error) => {
                            self.note_failure(server, error.kind());
                            return Poll::Ready(Ok(None));
                        }
                    }
                }
                ReadStage::Fallback(ticket) => {
                    let polled = self.primary.poll(ticket, operation, sink, outcome, context);
                    return polled.map(|done| done.map(Some));
                }
            }
        }
    }

    /// Finds out whether a standby runs that has sent no row for [`SILENCE`]. If it does not, its
    /// connections are closed, which ends the read.
    fn check_standby(&self, read: &mut PreferredRead, context: &Context<'_>) {
        let now = Instant::now();
        if let Some((at, lent)) = read.check {
            if now < at {
                return;
            }
            if lent == read.lent {
                self.replicas.shared(read.server).look_for_server();
            }
        }
        read.check = Some((now + SILENCE, read.lent));
        // Without an alarm, it is checked at a later poll.
        let _ = wake_at(now + SILENCE, context.waker().clone());
    }

    /// Leaves a server alone that could not be used. One without a connection is being connected.
    fn note_failure(&self, server: usize, kind: ErrorKind) {
        if kind != ErrorKind::Busy {
            self.replicas.leave_alone(server);
        }
    }

    /// Gives up what a read waits for.
    fn give_up(&mut self, read: &PreferredRead) {
        match read.stage {
            ReadStage::Primary(ticket) | ReadStage::Fallback(ticket) => self.primary.cancel(ticket),
            ReadStage::Replica(ticket, _) | ReadStage::Read(ticket) => {
                self.replica(read.server).cancel(ticket);
            }
            ReadStage::Pause(..) => {}
        }
    }
}

impl Session for ClusterSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        self.primary.submit(durability, operation, sink, outcome)
    }

    fn submit_read(
        &mut self,
        replica: ReplicaRead,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        if may_leave_reader(operation)
            && !self.primary.has_transaction()
            && let Some(server) = self.replicas.choose()
        {
            let after =
                replica.after.and_then(|(number, until)| Some((number.try_into().ok()?, until)));
            if let Some(submitted) = self.begin(server, after, operation, sink, outcome) {
                return Ok(submitted);
            }
            *outcome = Outcome::default();
        }
        self.primary.submit(None, operation, sink, outcome)
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if ticket.0 & OF_REPLICA == 0 {
            return self.primary.poll(ticket, operation, sink, outcome, context);
        }
        let own = Ticket(ticket.0 & !OF_REPLICA);
        let Some(mut read) = self.reads.take(own) else {
            return self.primary.poll(ticket, operation, sink, outcome, context);
        };
        loop {
            let advanced = self.advance(&mut read, operation, sink, outcome, context);
            let done = match advanced {
                Poll::Pending => {
                    self.reads.put(own, read);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(Some(()))) => Ok(()),
                Poll::Ready(Err(error)) => Err(error),
                Poll::Ready(Ok(None)) => {
                    self.give_up(&read);
                    *outcome = Outcome::default();
                    match self.primary.submit(None, operation, sink, outcome) {
                        Ok(Submitted::Waiting(ticket)) => {
                            read.stage = ReadStage::Fallback(ticket);
                            continue;
                        }
                        Ok(Submitted::Done) => Ok(()),
                        Err(error) => Err(error),
                    }
                }
            };
            self.reads.remove(own);
            return Poll::Ready(done);
        }
    }

    fn set_actor(&mut self, actor: Option<&Arc<str>>) {
        self.primary.set_actor(actor);
    }

    fn cancel(&mut self, ticket: Ticket) {
        if ticket.0 & OF_REPLICA == 0 {
            return self.primary.cancel(ticket);
        }
        if let Some(read) = self.reads.remove(Ticket(ticket.0 & !OF_REPLICA)) {
            self.give_up(&read);
        }
    }
}
