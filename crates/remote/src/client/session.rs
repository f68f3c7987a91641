//! A session on a server: a separate connection with many concurrent operations.
//!
//! Every poll reads all available answers, stores those for other futures and wakes them. A thread
//! that runs an operation sleeps on the socket itself. Of a session's futures, the last polled one
//! (the reader) is woken by the thread that watches the socket; when it ends, another takes its
//! place.

mod reconnect;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use marmota_model::{Error, ErrorKind, Result, RowSink};
use marmota_rpc::{ConnectAttempt, Packet, PacketBody, Reconnect, packet};
use marmota_store::Durability;
use marmota_store::engine::{Session, Sleep, Submitted, Ticket, Watch, Watched, sleep_on};
use marmota_store::operation::{Operation, Outcome};
use marmota_store::wait::QueuePlace;

use super::departure::{Departing, end_all};
use super::engine_state::EngineState;
use super::greeted_connection::GreetedConnection;
use super::reply::{self, Lending, TURN};
use crate::codec::operation::{Numbers, Terms, put_cancel, put_operation};
use crate::codec::outcome::LEAVING;

/// How often an operation is resent after its connection broke.
const REPEATS_MAX: u32 = 5;
/// A connection that was idle for this long is checked before a write is sent.
const IDLE: Duration = Duration::from_millis(20);
/// The maximum number and size of buffers kept for further packets.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 64 * 1024;
/// The answer to another future is copied up to this size; a larger one is taken with its buffer.
const COPIED_BYTES_MAX: usize = 64 * 1024;
/// The number of receives between two checks of the clock.
const RECEIVES_BETWEEN_LOOKS: u32 = 8;

/// A session on a server.
pub(super) struct RemoteSession {
    state: Arc<EngineState>,
    connection: Option<GreetedConnection>,
    waiting: Vec<Waiting>,
    /// The numbers of canceled operations that are not answered yet, and of their departures.
    given_up: Vec<(u32, u64)>,
    last: u32,
    transaction: InTransaction,
    /// The pauses between attempts, while the server is gone.
    reconnect: Option<Reconnect>,
    /// The connection that a helper thread makes.
    attempt: Option<Arc<ConnectAttempt<GreetedConnection>>>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    /// The number of the future that is woken when data arrives.
    reader: Option<u32>,
    spare: Vec<Vec<u8>>,
    /// True if there is more to read, after other tasks of the thread had their turn.
    has_more: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum InTransaction {
    No,
    Open,
    /// The connection of the transaction broke.
    Lost,
}

/// A running operation.
struct Waiting {
    number: u32,
    packet: Vec<u8>,
    is_sent: bool,
    sent_times: u32,
    /// True if it may be resent.
    is_retryable: bool,
    is_write: bool,
    kind: Kind,
    reply: Option<Result<PacketBody>>,
    /// The rows of its answer that were not passed yet.
    lending: Option<Lending>,
    waker: Option<Waker>,
    until: Instant,
    /// The last operation that was canceled before this write; the write is sent once that one is
    /// answered.
    after: Option<u64>,
    /// Its place in the queue for that.
    queue_place: QueuePlace,
}

/// The effect of an operation on the transaction.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Begins,
    Ends,
}

struct TableNumbers<'l>(&'l [Arc<marmota_model::Table>]);

impl Numbers for TableNumbers<'_> {
    fn number(&self, table: &marmota_model::Table) -> Result<u32> {
        let place = self.0.iter().position(|known| std::ptr::eq(&**known, table));
        let place = place.or_else(|| self.0.iter().position(|known| known.name() == table.name()));
        place.map(|place| place as u32).ok_or_else(|| {
            let message = format!("the table `{}` is not known to the server", table.name());
            Error::new(ErrorKind::Invalid, message)
        })
    }
}

impl RemoteSession {
    pub(super) fn new(state: Arc<EngineState>) -> Self {
        Self {
            state,
            connection: None,
            waiting: Vec::new(),
            given_up: Vec::new(),
            last: 0,
            transaction: InTransaction::No,
            reconnect: None,
            attempt: None,
            watch: Arc::default(),
            watched: None,
            reader: None,
            spare: Vec::new(),
            has_more: false,
        }
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        self.waiting.iter().position(|one| u64::from(one.number) == ticket.0)
    }

    fn encode(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        within: Duration,
    ) -> Result<Vec<u8>> {
        self.last = self.last.wrapping_add(1).max(1);
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        let start = packet::begin(&mut packet, self.last);
        let tables = Arc::clone(&self.state.tables.read());
        let terms = Terms { durability, within: Some(within) };
        put_operation(&mut packet, terms, &TableNumbers(&tables), operation)?;
        packet::end(&mut packet, start);
        Ok(packet)
    }

    /// Returns an error if an operation is not allowed in the state of the session.
    fn admit(&self, operation: &Operation<'_>) -> Result<Kind> {
        match (self.transaction, operation) {
            (InTransaction::Lost, Operation::Rollback) => Ok(Kind::Ends),
            (InTransaction::Lost, _) => {
                let message = "the connection was lost, and the transaction was rolled back";
                Err(Error::new(ErrorKind::Lost, message))
            }
            (InTransaction::No, Operation::Begin) => {
                self.state.check_open()?;
                Ok(Kind::Begins)
            }
            (InTransaction::No, _) => self.state.check_open().map(|()| Kind::Plain),
            (InTransaction::Open, Operation::Commit | Operation::Rollback) => Ok(Kind::Ends),
            (InTransaction::Open, _) => Ok(Kind::Plain),
        }
    }

    /// Connects if necessary, and sends the unsent operations.
    fn go_on(&mut self) {
        if self.connection.is_none() {
            self.reconnect();
        }
        let Some(connection) = &mut self.connection else { return };
        let mut failed = connection.inner.flush().is_err();
        for one in self.waiting.iter_mut().filter(|one| !one.is_sent && one.reply.is_none()) {
            if let Some(last) = one.after {
                if self.state.departures.until(last).is_some() {
                    // In a transaction, operations are executed in their order.
                    if self.transaction == InTransaction::Open {
                        break;
                    }
                    continue;
                }
                one.after = None;
            }
            if one.packet.len() as u64 > connection.welcome.packet_bytes_max {
                let message = format!(
                    "the operation has {} bytes, but the server accepts at most {}: send fewer \
                     rows at once",
                    one.packet.len(),
                    connection.welcome.packet_bytes_max
                );
                one.reply = Some(Err(Error::new(ErrorKind::Invalid, message)));
                continue;
            }
            failed = failed || connection.send(&one.packet).is_err();
            if failed {
                break;
            }
            (one.is_sent, one.sent_times) = (true, one.sent_times + 1);
        }
        if failed {
            self.break_off();
        }
    }

    /// The connection is broken: resends the operations that may be resent, and fails the others.
    #[cold]
    fn break_off(&mut self) {
        self.disconnect(false);
    }

    /// Closes the connection. The server may have executed operations that it has not answered,
    /// unless it is `leaving`.
    #[cold]
    fn disconnect(&mut self, leaving: bool) {
        self.connection = None;
        end_all(&self.state, std::mem::take(&mut self.given_up));
        // Idle connections to the same server are broken, too.
        self.state.spare.lock().clear();
        let in_transaction = self.transaction == InTransaction::Open;
        for one in self.waiting.iter_mut().filter(|one| one.reply.is_none()) {
            let repeats = one.is_retryable && one.sent_times < REPEATS_MAX;
            if one.is_sent && (repeats || leaving && !in_transaction) {
                one.is_sent = false;
            } else if one.is_sent || in_transaction {
                one.reply = Some(Err(self.state.lost(one.is_write)));
            }
            one.waker.take().into_iter().for_each(Waker::wake);
        }
        if in_transaction {
            self.set_transaction(InTransaction::Lost);
        }
    }

    fn set_transaction(&mut self, state: InTransaction) {
        let was_open = self.transaction == InTransaction::Open;
        let is_open = state == InTransaction::Open;
        match (was_open, is_open) {
            (false, true) => *self.state.transactions.lock() += 1,
            (true, false) => {
                *self.state.transactions.lock() -= 1;
                self.state.ended.notify_all();
            }
            _ => {}
        }
        self.transaction = state;
    }

    /// Reads answers until the one with the number `wanted`, which is decoded directly.
    fn read(
        &mut self,
        wanted: u32,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let (mut found, mut receives, mut until) = (None, 0_u32, None);
        while let Some(connection) = &mut self.connection {
            loop {
                let Packet { number, body } = match connection.inner.next_packet() {
                    Ok(Some(packet)) => packet,
                    Ok(None) => break,
                    Err(error) => {
                        self.break_off();
                        return Poll::Ready(Err(error));
                    }
                };
                if number == wanted && !reply::is_long(body, operation) {
                    found = Some(reply::take(body, operation, sink, outcome));
                } else if let Some(one) = self.waiting.iter_mut().find(|one| one.number == number) {
                    let body = match body.len() {
                        0..=COPIED_BYTES_MAX => PacketBody::copy(body),
                        length => connection.inner.take_last(length),
                    };
                    one.reply = Some(Ok(body));
                    if number == wanted {
                        return Poll::Pending;
                    }
                    one.waker.take().into_iter().for_each(Waker::wake);
                } else if let Some(at) =
                    self.given_up.iter().position(|(given_up, _)| *given_up == number)
                {
                    let (_, departure) = self.given_up.swap_remove(at);
                    self.state.departures.end(departure);
                } else if number == 0 && body.first() == Some(&LEAVING) {
                    self.disconnect(true);
                    self.has_more = found.is_none();
                    return found.map_or(Poll::Pending, Poll::Ready);
                } else if number == 0
                    && let Err(error) =
                        reply::take(body, &mut Operation::Begin, sink, &mut Outcome::default())
                {
                    // The server has closed the connection.
                    found = Some(Err(error));
                }
            }
            if let Some(result) = found {
                return Poll::Ready(result);
            }
            receives += 1;
            if receives.is_multiple_of(RECEIVES_BETWEEN_LOOKS) {
                let now = Instant::now();
                if now >= *until.get_or_insert(now + TURN) {
                    self.has_more = true;
                    return Poll::Pending;
                }
            }
            if connection.inner.source().is_none() && !context.waker().will_wake(Waker::noop()) {
                // The wire wakes this future from now on, and no other.
                self.reader = Some(wanted);
            }
            match connection.inner.receive(context) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(_) => {
                    self.break_off();
                    break;
                }
            }
        }
        Poll::Pending
    }

    /// Ends an operation.
    fn end(&mut self, place: usize, result: Result<()>) -> Result<()> {
        match self.remove(place) {
            Kind::Begins if result.is_ok() => self.set_transaction(InTransaction::Open),
            Kind::Ends => self.set_transaction(InTransaction::No),
            _ => {}
        }
        let is_open = self.transaction == InTransaction::Open;
        if self.waiting.is_empty() && !self.given_up.is_empty() && !is_open {
            self.depart();
        }
        result
    }

    fn remove(&mut self, place: usize) -> Kind {
        let mut one = self.waiting.swap_remove(place);
        self.state.departures.leave(&mut one.queue_place);
        if self.spare.len() < SPARE_MAX && one.packet.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(one.packet);
        }
        if self.reader == Some(one.number) {
            self.pass_on_reading();
        }
        one.kind
    }

    /// Abandons the connection to its canceled operations.
    #[cold]
    fn depart(&mut self) {
        let given_up = std::mem::take(&mut self.given_up);
        match self.connection.take() {
            Some(connection) if given_up.is_empty() => self.state.give_back(connection),
            Some(connection) => Departing::start(&self.state, connection, given_up),
            None => end_all(&self.state, given_up),
        }
    }

    /// Passes reading to another future: it becomes the reader, even if it ends at its next poll,
    /// so that it passes reading on in turn.
    fn pass_on_reading(&mut self) {
        self.reader = None;
        let next = self.waiting.iter().find(|one| one.waker.is_some() && one.reply.is_none());
        if let Some(one) = next
            && let Some(waker) = &one.waker
        {
            self.reader = Some(one.number);
            waker.wake_by_ref();
        }
    }

    fn proceed(
        &mut self,
        place: usize,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.watch.look();
        self.go_on();
        self.has_more = false;
        let number = self.waiting[place].number;
        if self.waiting[place].lending.is_some() {
            return self.lend(place, operation, sink, outcome);
        }
        if self.waiting[place].reply.is_none()
            && let Poll::Ready(result) = self.read(number, operation, sink, outcome, context)
        {
            return Poll::Ready(result);
        }
        match self.waiting[place].reply.take() {
            Some(Ok(body)) if reply::is_long(&body, operation) => {
                self.waiting[place].lending = Some(Lending::new(body)?);
                if self.reader == Some(number) {
                    self.pass_on_reading();
                }
                self.lend(place, operation, sink, outcome)
            }
            Some(Ok(body)) => Poll::Ready(reply::take(&body, operation, sink, outcome)),
            Some(Err(error)) => Poll::Ready(Err(error)),
            None if self.waiting[place].until <= Instant::now() => {
                let Waiting { is_write, number, .. } = self.waiting[place];
                self.send_cancel(number);
                let rest =
                    if is_write { "; a write may or may not have been committed" } else { "" };
                let message = format!(
                    "the server did not answer within {} ms{rest}",
                    self.state.deadline.as_millis()
                );
                Poll::Ready(Err(Error::new(ErrorKind::Timeout, message)))
            }
            None => Poll::Pending,
        }
    }

    /// Passes the next turn of a long answer.
    fn lend(
        &mut self,
        place: usize,
        operation: &Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Poll<Result<()>> {
        let (Some(table), Some(lending)) =
            (operation.lent_table(), &mut self.waiting[place].lending)
        else {
            return Poll::Ready(Ok(()));
        };
        match lending.turn(table, sink, outcome) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => {
                self.has_more = true;
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn send_cancel(&mut self, number: u32) {
        let Some(connection) = &mut self.connection else { return };
        let mut packet = Vec::new();
        let start = packet::begin(&mut packet, 0);
        put_cancel(&mut packet, number);
        packet::end(&mut packet, start);
        if connection.send(&packet).is_err() {
            self.break_off();
        }
    }

    /// Makes the server roll back the transaction; later writes wait for that.
    fn send_rollback(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        self.last = self.last.wrapping_add(1).max(1);
        let mut packet = Vec::new();
        let start = packet::begin(&mut packet, self.last);
        let (terms, numbers) = (Terms::default(), TableNumbers(&[]));
        let put = put_operation(&mut packet, terms, &numbers, &mut Operation::Rollback);
        packet::end(&mut packet, start);
        if put.is_err() || connection.send(&packet).is_err() {
            return self.break_off();
        }
        self.given_up.push((self.last, self.state.departures.begin()));
    }

    /// Registers for the next poll.
    fn sleep(&mut self, place: usize, context: &Context<'_>) {
        let one = &mut self.waiting[place];
        match &mut one.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        let mut until = one.until;
        if let Some(last) = one.after {
            let departures = &self.state.departures;
            departures.wait(&mut one.queue_place, context.waker());
            match departures.until(last) {
                Some(at) => until = until.min(at),
                None => context.waker().wake_by_ref(),
            }
        }
        let (source, writes) = match &self.connection {
            Some(connection) => (connection.inner.source(), connection.inner.waits_for_room()),
            None => (None, false),
        };
        if let Some(source) = source
            && sleep_on(Sleep { source: Arc::clone(source), writes })
        {
            return;
        }
        // The last polled future becomes the reader: an earlier one may not be polled again while
        // this one is awaited.
        self.reader = Some(one.number);
        match source {
            Some(source) => {
                self.watch.keep(source, &mut self.watched);
                if self.watched.is_none() {
                    // The system has no watcher: poll repeatedly.
                    context.waker().wake_by_ref();
                }
            }
            None => {
                self.watched = None;
                until = self.reconnect.as_ref().map_or(until, |one| one.next_attempt().min(until));
            }
        }
        self.watch.wake(context.waker());
        self.watch.wake_at(until);
    }
}

impl Session for RemoteSession {
    fn submit(
        &mut self,
        durability: Option<Durability>,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
    ) -> Result<Submitted> {
        let kind = self.admit(operation)?;
        if self.transaction == InTransaction::Lost {
            self.set_transaction(InTransaction::No);
            return Ok(Submitted::Done);
        }
        let packet = self.encode(durability, operation, self.state.deadline)?;
        let is_write = operation.is_write() && kind != Kind::Begins;
        let is_once = matches!(operation, Operation::Batch { once: Some(_), .. });
        let is_retryable = self.transaction == InTransaction::No && (!is_write || is_once);
        let number = self.last;
        let waits = is_write || kind == Kind::Begins;
        let after = if waits { self.state.departures.last() } else { None };
        self.waiting.push(Waiting {
            number,
            packet,
            is_sent: false,
            sent_times: 0,
            is_retryable,
            is_write,
            kind,
            reply: None,
            lending: None,
            waker: None,
            until: self.state.until(),
            after,
            queue_place: QueuePlace::default(),
        });
        let place = self.waiting.len() - 1;
        let is_idle =
            self.connection.as_ref().is_some_and(|connection| connection.used.elapsed() > IDLE);
        if is_idle && !is_retryable {
            self.check_connection();
        }
        self.go_on();
        let is_direct =
            self.connection.as_ref().is_some_and(|connection| connection.inner.source().is_none());
        if is_direct || self.waiting[place].reply.is_some() {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = self.proceed(place, operation, sink, outcome, &mut context)
            {
                return self.end(place, result).map(|()| Submitted::Done);
            }
        }
        Ok(Submitted::Waiting(Ticket(number.into())))
    }

    fn poll(
        &mut self,
        ticket: Ticket,
        operation: &mut Operation<'_>,
        sink: &mut dyn RowSink,
        outcome: &mut Outcome,
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(place) = self.place(ticket) else {
            let message = "an operation was polled after it had ended or was canceled";
            return Poll::Ready(Err(Error::new(ErrorKind::Bug, message)));
        };
        match self.proceed(place, operation, sink, outcome, context) {
            Poll::Ready(result) => Poll::Ready(self.end(place, result)),
            Poll::Pending if self.has_more => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                self.sleep(place, context);
                Poll::Pending
            }
        }
    }

    fn cancel(&mut self, ticket: Ticket) {
        let Some(place) = self.place(ticket) else { return };
        let Waiting { number, is_sent, is_write, kind, .. } = self.waiting[place];
        let one = &self.waiting[place];
        let is_answered = one.reply.is_some() || one.lending.is_some();
        let is_under_way = is_sent && !is_answered;
        let has_begun = kind == Kind::Begins && (is_under_way || matches!(&one.reply, Some(Ok(_))));
        self.remove(place);
        if is_under_way {
            self.send_cancel(number);
        }
        let is_open = self.transaction == InTransaction::Open;
        if has_begun || kind == Kind::Ends && !is_sent && is_open {
            self.send_rollback();
        } else if is_under_way
            && (is_write || kind == Kind::Ends)
            && self.connection.is_some()
            && (kind == Kind::Ends || !is_open)
        {
            self.given_up.push((number, self.state.departures.begin()));
        }
        if kind == Kind::Ends {
            self.set_transaction(InTransaction::No);
        }
        if self.given_up.is_empty() {
            return;
        }
        match (self.waiting.is_empty(), kind) {
            (true, _) => self.depart(),
            // The remaining operations would be executed in a transaction without an owner.
            (false, Kind::Begins | Kind::Ends) => self.break_off(),
            (false, Kind::Plain) => {}
        }
    }
}

impl RemoteSession {
    /// Checks whether the server has closed an idle connection, before a write is sent that could
    /// not be resent.
    fn check_connection(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let is_alone = self.waiting.len() == 1;
        if let Some(connection) = &mut self.connection
            && is_alone
            && connection.inner.receive(&mut context).is_err()
        {
            self.break_off();
        }
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        let is_open = self.transaction == InTransaction::Open;
        for mut one in self.waiting.drain(..) {
            self.state.departures.leave(&mut one.queue_place);
            if one.is_sent && one.reply.is_none() {
                // The server cancels running operations when the connection closes.
                self.connection = None;
            }
        }
        if is_open {
            // Rolled back at once, so that other writers do not wait long.
            self.send_rollback();
        }
        self.set_transaction(InTransaction::No);
        self.depart();
    }
}
