//! One connection: submitted operations are sent together, and answers return in the same order.
//!
//! An *exchange* is the messages sent for one operation, and their answer. Several are in progress
//! at once. Each poll reads the available messages and assigns them to exchanges. The waker of
//! every complete answer is woken then, so that all of them continue in one turn. Answers stay in
//! the input buffer until they are taken. If the buffer needs the room, they are copied elsewhere,
//! up to a limit; beyond it nothing is read until they are taken. The answer of an abandoned
//! exchange is read and dropped.

pub(crate) mod cancel;
pub(crate) mod connector;
mod login;
pub(crate) mod no_connection;
pub(crate) mod pool;
pub(crate) mod query;
mod routing;
mod sending;
pub(crate) mod slot;
pub(crate) mod socket;
mod transfer;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use marmota_store::engine::{Watch, Watched};

use routing::Routed;
pub(crate) use sending::Sending;

use self::socket::{Socket, Stream};
use crate::options::own_connections::{Counted, OwnConnections, OwnProcess};
use crate::statement::Text;
use crate::wire::backend::BackendMessage;
use crate::wire::frontend;

/// A connection unused for this long is checked before it is used.
const IDLE: Duration = Duration::from_millis(500);

/// The time after which a poll that reads messages yields to others.
const TURN: Duration = Duration::from_millis(2);

/// The connection was lost, with the reason.
#[derive(Clone, Debug)]
pub(crate) struct Loss(pub(crate) Arc<str>);

/// The transaction state of the server's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not in a transaction.
    Idle,
    /// In a transaction.
    Transaction,
    /// In a failed transaction.
    Failed,
}

/// The messages sent for one operation, and their answer.
#[derive(Default)]
struct Exchange {
    /// The number of groups whose end was not received.
    groups_left: u32,
    groups: u32,
    /// Statements that are being prepared, with their group.
    parsing: VecDeque<(u128, u32)>,
    /// The received part of the answer that was not taken, except for the part in the input.
    kept: Vec<u8>,
    /// The range of the latest part in the input.
    held: Range<usize>,
    waker: Option<Waker>,
    is_wanted: bool,
    /// True if it changes whether rows are found in order.
    turns: bool,
    /// True if it may share its Sync with later exchanges.
    shares_sync: bool,
    /// The number of its unanswered statements, if it shares its Sync.
    calls_left: u32,
    /// True if an earlier exchange with the same Sync failed: the server did not execute this one.
    is_skipped: bool,
    /// True for a read that may take long: other reads should not wait for it.
    may_be_long: bool,
    /// The server's time for it, known after its answer, if it may take long.
    took: Duration,
}

/// The end of an exchange's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was answered.
    Answered,
    /// The server did not execute it because another exchange failed: it must be sent again.
    Skipped,
}

/// Called for each announcement.
pub(crate) type OnAnnouncement = Box<dyn FnMut(&str) + Send>;

/// A connection with its buffers and exchanges.
pub(crate) struct Connection {
    /// A unique number.
    number: u64,
    socket: Socket,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// The received part of the input that was not processed.
    unread: Range<usize>,
    /// The number of input bytes that exchanges hold.
    held: usize,
    exchanges: VecDeque<Exchange>,
    /// The number of the first exchange.
    first: u64,
    /// The number of exchanges with complete answers.
    ended: usize,
    /// True if the last exchange shares its Sync, which is not written yet.
    lacks_sync: bool,
    /// Prepared statements by name, with the time of their last use.
    prepared: HashMap<u128, u64>,
    /// Statements that were evicted and must be closed.
    evicted: Vec<u128>,
    /// Set at the start of each transaction, over a pooler; there, nothing else persists between
    /// transactions.
    settings: Option<Arc<Text>>,
    uses: u64,
    state: State,
    /// True if it is of no use once the server is not a standby any more.
    ends_with_recovery: bool,
    loss: Option<Loss>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    /// True if all available input was read, and the watch reports when more arrives.
    is_dry: bool,
    /// True if that is known from a read that got fewer bytes than it had room for.
    was_short: bool,
    /// True if an answer was left incomplete so that others have their turn.
    leaves_turn: bool,
    /// The time of the last received data, or of sending while no exchange was in progress.
    used: Instant,
    /// The server's time for the read whose answer was taken last, if that may take long.
    took_last: Option<Duration>,
    /// The start of the server's current exchange, as far as `used` determines it.
    current_since: Instant,
    /// While set, this connection's writes are not reported to the feed.
    counted: Option<Counted>,
    hears: Option<OnAnnouncement>,
    /// The key for cancelling the current statement.
    key: Option<CancelKey>,
    /// Held while the connection is open.
    process: Option<OwnProcess>,
    /// True if statements find rows in the order of their parameters; `None` if unknown.
    in_order: Option<bool>,
    /// Exchanges before this one may have been hit by the cancellation of another.
    cancelled_before: u64,
}

/// The key of a cancel request: the server, the number of its process, and a secret.
#[derive(Clone)]
pub(crate) struct CancelKey {
    pub(crate) server: usize,
    pub(crate) process: i32,
    pub(crate) secret: Box<[u8]>,
}

/// The state of an abandoned exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeState {
    /// It has ended.
    Over,
    /// The server is executing it.
    Current,
    /// The server is executing an earlier one.
    Behind,
}

impl Connection {
    /// Returns the next connection number.
    pub(crate) fn next_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates a connection that was announced to the server with this number.
    pub(crate) fn new(number: u64, socket: Socket, own: &OwnConnections) -> Self {
        Self {
            number,
            socket,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            unread: 0..0,
            held: 0,
            exchanges: VecDeque::new(),
            first: 0,
            ended: 0,
            lacks_sync: false,
            prepared: HashMap::new(),
            evicted: Vec::new(),
            settings: None,
            uses: 0,
            state: State::Idle,
            ends_with_recovery: false,
            loss: None,
            watch: Arc::default(),
            watched: None,
            is_dry: false,
            was_short: false,
            leaves_turn: false,
            used: Instant::now(),
            took_last: None,
            current_since: Instant::now(),
            counted: Some(own.count(number)),
            hears: None,
            key: None,
            process: None,
            in_order: Some(false),
            cancelled_before: 0,
        }
    }

    /// Marks the connection as pooled: server connections change between transactions, and these
    /// settings begin each transaction.
    pub(crate) fn is_pooled(&mut self, settings: Text) {
        self.settings = Some(Arc::new(settings));
    }

    /// Sets whether the connection is lost when the server reports its promotion.
    pub(crate) const fn ends_with_recovery(&mut self, ends: bool) {
        self.ends_with_recovery = ends;
    }

    /// Sets the key for cancelling its statements, which has the server's process.
    pub(crate) fn has_key(&mut self, key: Option<CancelKey>, own: &OwnConnections) {
        self.process = key.as_ref().map(|key| own.add_process(key.process));
        self.key = key;
    }

    /// Returns the state of an exchange.
    pub(crate) fn exchange_state(&mut self, number: u64) -> ExchangeState {
        self.read_on();
        match self.place(number) {
            Some(place) if place == self.ended && self.loss.is_none() => ExchangeState::Current,
            Some(place) if place > self.ended && self.loss.is_none() => ExchangeState::Behind,
            _ => ExchangeState::Over,
        }
    }

    /// Prepares the cancellation of the current statement. Returns the key for it.
    pub(crate) fn cancel(&mut self) -> Option<CancelKey> {
        self.cancelled_before = self.first + self.exchanges.len() as u64;
        self.key.clone()
    }

    /// Returns true if an exchange may have been hit by the cancellation of another.
    pub(crate) const fn may_be_cancelled(&self, number: u64) -> bool {
        number < self.cancelled_before
    }

    /// Sets the function that is called for announcements on its channels.
    pub(crate) fn hear(&mut self, hears: OnAnnouncement) {
        self.hears = Some(hears);
    }

    /// Reports later writes to the feed, because the store does not learn the result of a write.
    pub(crate) fn is_news(&mut self) {
        self.counted = None;
    }

    /// Returns its unique number.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the address of the server if it runs on this machine.
    pub(crate) fn local_server(&self) -> Option<String> {
        self.socket.local_server()
    }

    /// Returns the reason if the connection was lost.
    pub(crate) const fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Returns the transaction state after the last answer.
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// Returns the number of exchanges in progress, including abandoned ones.
    pub(crate) fn under_way(&self) -> usize {
        self.exchanges.len() - self.ended
    }

    /// Returns true if an exchange is in progress and nothing was received for this time: the
    /// server waits, for example for the lock of a row.
    pub(crate) fn stalls(&mut self, at_least: Duration) -> bool {
        if self.under_way() == 0 || self.used.elapsed() < at_least {
            return false;
        }
        // Available messages may not have been read yet.
        self.read_on();
        self.under_way() > 0 && self.used.elapsed() >= at_least
    }

    /// Marks an exchange as a read that may take long.
    pub(crate) fn may_be_long(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            self.exchanges[place].may_be_long = true;
        }
    }

    /// Returns true if the server has executed a read for so long that other reads should not wait
    /// for it.
    pub(crate) fn is_held_up(&mut self, at_least: Duration) -> bool {
        if !self.is_at_long(at_least) {
            return false;
        }
        // Available messages may not have been read yet.
        self.read_on();
        self.is_at_long(at_least)
    }

    /// Like [`Self::is_held_up`], without reading available messages.
    pub(crate) fn is_at_long(&self, at_least: Duration) -> bool {
        let current = self.exchanges.get(self.ended);
        current.is_some_and(|current| current.may_be_long)
            && self.current_since.elapsed() >= at_least
    }

    /// Returns true if an exchange follows a read that may take long.
    pub(crate) fn waits_after_long(&self, number: u64) -> bool {
        self.exchanges.get(self.ended).is_some_and(|current| current.may_be_long)
            && self.place(number).is_some_and(|place| place > self.ended)
    }

    /// Returns the wakers of exchanges that follow a read that may take long.
    fn behind_long(&self) -> impl Iterator<Item = &Waker> {
        let mut all = self.exchanges.iter().skip(self.ended);
        let is_long = all.next().is_some_and(|current| current.may_be_long);
        all.filter(move |_| is_long).filter_map(|exchange| exchange.waker.as_ref())
    }

    /// Returns true if an exchange with a waker follows a read that may take long.
    pub(crate) fn has_waiters_after_long(&self) -> bool {
        self.behind_long().next().is_some()
    }

    /// Wakes the exchanges that follow a read that may take long.
    pub(crate) fn wake_after_long(&self) {
        self.behind_long().for_each(Waker::wake_by_ref);
    }

    /// Returns, once, the server's time for the read whose answer was taken last, if that may take
    /// long.
    pub(crate) const fn take_took(&mut self) -> Option<Duration> {
        self.took_last.take()
    }

    fn took(&self, number: u64) -> Option<Duration> {
        let place = self.place(number).filter(|place| *place < self.ended)?;
        let exchange = &self.exchanges[place];
        exchange.may_be_long.then_some(exchange.took)
    }

    /// Returns true if no exchange is in progress; otherwise `waker` is woken when that may have
    /// changed.
    pub(crate) fn is_quiet(&mut self, waker: &Waker) -> bool {
        self.read_on();
        self.flush();
        if self.under_way() == 0 || self.loss.is_some() {
            return true;
        }
        self.wait(self.first + self.exchanges.len() as u64 - 1, waker);
        false
    }

    /// Returns the number of the exchange that the server executes now or next.
    pub(crate) const fn current(&self) -> u64 {
        self.first + self.ended as u64
    }

    /// Returns the number of exchanges that were not abandoned.
    pub(crate) fn wanted(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.is_wanted).count()
    }

    /// Checks that the server is still there: always before a write, which would have an unknown
    /// outcome, otherwise after a pause or when the watch has reported something. Reads until
    /// nothing is left: a server that shuts down first sends a message, and then closes the
    /// connection.
    pub(crate) fn receive_available(&mut self, is_for_reads: bool) {
        if !self.exchanges.is_empty() || self.loss.is_some() {
            return;
        }
        let has_news = self.watched.is_some() && self.watch.has_happened();
        if !is_for_reads || has_news || self.used.elapsed() > IDLE {
            self.look_now();
        }
    }

    fn look_now(&mut self) {
        self.used = Instant::now();
        loop {
            self.is_dry = false;
            let came = self.pump();
            while let Some(Ok(())) = self.step(None) {}
            if !came || self.loss.is_some() {
                return;
            }
        }
    }

    /// Abandons an exchange: its answer will be dropped.
    pub(crate) fn abandon(&mut self, number: u64) {
        let Some(place) = self.place(number) else { return };
        let exchange = &mut self.exchanges[place];
        exchange.is_wanted = false;
        exchange.kept = Vec::new();
        exchange.waker = None;
        self.held -= std::mem::take(&mut exchange.held).len();
        self.let_go();
        self.pass_on();
    }

    /// Returns true if data waits to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Returns the stream from which its answers are read.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        Arc::clone(self.socket.stream())
    }

    /// Reads and assigns all available messages.
    pub(crate) fn read_on(&mut self) {
        loop {
            match self.route(u64::MAX) {
                Routed::Some => {}
                Routed::None if self.pump() => {}
                _ => return,
            }
        }
    }

    /// Sends as much as possible without waiting.
    pub(crate) fn flush(&mut self) {
        if let Err(error) = self.send() {
            self.lose(&error.to_string());
        }
    }

    /// Returns true, once, if the last answer was left before all available messages were
    /// processed, so that others have their turn.
    pub(crate) const fn take_leave(&mut self) -> bool {
        std::mem::replace(&mut self.leaves_turn, false)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (place < self.exchanges.len()).then_some(place)
    }

    /// Passes each available message of an exchange's answer to `take`. Ready at the end of the
    /// answer; then the exchange is over.
    ///
    /// # Errors
    /// The loss of the connection.
    pub(crate) fn answer(
        &mut self,
        number: u64,
        take: &mut dyn FnMut(BackendMessage<'_>),
    ) -> Poll<Result<Ending, Loss>> {
        let mut began = None;
        loop {
            let Some(place) = self.place(number) else {
                return Poll::Ready(Err(self.loss.clone().unwrap_or(Loss("no answer".into()))));
            };
            if place <= self.ended && !self.take(place, take) {
                self.leaves_turn = true;
                return Poll::Pending;
            }
            if place < self.ended {
                self.took_last = self.took(number);
                let is_skipped = self.exchanges[place].is_skipped;
                self.exchanges[place].is_wanted = false;
                self.let_go();
                self.pass_on();
                let ending = if is_skipped { Ending::Skipped } else { Ending::Answered };
                return Poll::Ready(Ok(ending));
            }
            if let Some(loss) = &self.loss {
                return Poll::Ready(Err(loss.clone()));
            }
            match self.route(number) {
                Routed::Some => continue,
                Routed::None if self.pump() => {
                    // `used` is the time of receiving, so the clock is not read again.
                    if self.used.duration_since(*began.get_or_insert(self.used)) >= TURN {
                        self.leaves_turn = true;
                        return Poll::Pending;
                    }
                    continue;
                }
                Routed::None => {}
                Routed::Full => self.flush(),
            }
            if self.loss.is_none() {
                return Poll::Pending;
            }
        }
    }

    fn lose(&mut self, why: &str) {
        if self.loss.is_some() {
            return;
        }
        self.loss = Some(Loss(why.into()));
        self.watched = None;
        // The server may still be executing what it was sent.
        self.is_news();
        for exchange in &mut self.exchanges {
            if let Some(waker) = exchange.waker.take() {
                waker.wake();
            }
        }
    }

    /// Closes the connection with a Terminate message.
    pub(crate) fn close(&mut self) {
        if self.loss.is_none() {
            frontend::terminate(&mut self.out);
            self.flush();
            self.lose("the engine is closed");
        }
    }
}
