//! One connection: what is submitted goes out together, and answers come back
//! in the same order.
//!
//! An *exchange* is what is sent for one operation, and its answer. Several are
//! under way at once. Whoever polls reads what has come and finds out whose it
//! is: everybody whose answer is whole is woken then, so that all of them go on
//! in one turn. Answers lie in the buffer until they are taken; where its room
//! is needed they are kept elsewhere, up to a bound, behind which nothing more
//! is read before they were taken. An exchange that nobody wants any more is
//! read and dropped.

mod routing;
mod sending;
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

use crate::own::{Counted, Own};
use crate::socket::{Socket, Stream};
use crate::statement::Text;
use crate::wire::backend::Message;
use crate::wire::frontend;

/// A connection unused for this long is looked at before it is used.
const IDLE: Duration = Duration::from_millis(500);

/// How long one poll looks at what comes before others have their turn.
const TURN: Duration = Duration::from_millis(2);

/// The connection is gone, and why.
#[derive(Clone, Debug)]
pub(crate) struct Loss(pub(crate) Arc<str>);

/// Where the server's side of the connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In no transaction.
    Idle,
    /// In one.
    Transaction,
    /// In one that has failed.
    Failed,
}

/// What is sent for one operation, and its answer.
#[derive(Default)]
struct Exchange {
    /// Groups whose end has not come.
    groups_left: u32,
    groups: u32,
    /// Statements that are being prepared, and in which group.
    parsing: VecDeque<(u128, u32)>,
    /// What has come and was not taken, but for what lies in the input.
    kept: Vec<u8>,
    /// Where in the input what came last lies.
    held: Range<usize>,
    waker: Option<Waker>,
    is_wanted: bool,
    /// It says whether rows are found in order.
    turns: bool,
    /// It may share its Sync with exchanges after it.
    shares_sync: bool,
    /// Its statements without an answer, if it shares its Sync.
    calls_left: u32,
    /// One before it failed that it shares its Sync with: the server did not execute it.
    is_skipped: bool,
    /// A read that may take long: other reads should not wait for it.
    may_be_long: bool,
    /// How long the server was at it, once its answer has come, if it may take long.
    took: Duration,
}

/// How the answer of an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was answered.
    Answered,
    /// The server did not execute it, because of the failure of another: it has to be sent again.
    Skipped,
}

/// Hears what is announced.
pub(crate) type Hears = Box<dyn FnMut(&str) + Send>;

/// See the module.
pub(crate) struct Connection {
    /// A number that no other has.
    number: u64,
    socket: Socket,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// What of the input has come and was not looked at.
    unread: Range<usize>,
    /// How many bytes of the input exchanges hold.
    held: usize,
    exchanges: VecDeque<Exchange>,
    /// The number of the first exchange.
    first: u64,
    /// How many of them have come whole.
    ended: usize,
    /// The last exchange shares its Sync, which is not written yet.
    lacks_sync: bool,
    /// Statements by their names, with when they were last used.
    prepared: HashMap<u128, u64>,
    /// Statements that gave their place to others, and are to be closed.
    evicted: Vec<u128>,
    /// Set at the beginning of each transaction, over a pooler; nothing else is
    /// kept from one to the next there.
    settings: Option<Arc<Text>>,
    uses: u64,
    state: State,
    loss: Option<Loss>,
    watch: Arc<Watch>,
    watched: Option<Watched>,
    /// All that had come was read, and what comes next is told to the watch.
    is_dry: bool,
    /// An answer was left so that others have their turn.
    leaves_turn: bool,
    /// When something came, or was sent while nothing was under way.
    used: Instant,
    /// How long the server was at the read whose answer was taken last, if that may take long.
    took_last: Option<Duration>,
    /// Since when the server is at what it is at, as far as `used` tells.
    current_since: Instant,
    /// The engine does not report its writes to the feed.
    counted: Option<Counted>,
    hears: Option<Hears>,
    /// What it takes to end what the server is at.
    key: Option<CancelKey>,
    /// Statements find rows in the order that they name them in; none if it is
    /// not known.
    in_order: Option<bool>,
    /// Exchanges before this one may have met the end of another.
    cancelled_before: u64,
}

/// What the server wants to hear from who ends what it is at: the number of
/// its process, and a secret.
#[derive(Clone)]
pub(crate) struct CancelKey {
    pub(crate) process: i32,
    pub(crate) secret: Box<[u8]>,
}

/// Where an exchange stands that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has ended.
    Over,
    /// The server is at it.
    Current,
    /// The server is at another before it.
    Behind,
}

impl Connection {
    /// A number for the next.
    pub(crate) fn next_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection that has said to the server that it has this number.
    pub(crate) fn new(number: u64, socket: Socket, own: &Own) -> Self {
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
            loss: None,
            watch: Arc::default(),
            watched: None,
            is_dry: false,
            leaves_turn: false,
            used: Instant::now(),
            took_last: None,
            current_since: Instant::now(),
            counted: Some(own.count(number)),
            hears: None,
            key: None,
            in_order: Some(false),
            cancelled_before: 0,
        }
    }

    /// Server connections change from one transaction to the next: these
    /// settings begin each.
    pub(crate) fn is_pooled(&mut self, settings: Text) {
        self.settings = Some(Arc::new(settings));
    }

    /// What ends a statement on it.
    pub(crate) fn has_key(&mut self, key: Option<CancelKey>) {
        self.key = key;
    }

    /// Where an exchange stands.
    pub(crate) fn standing(&mut self, number: u64) -> Standing {
        self.read_on();
        match self.place(number) {
            Some(place) if place == self.ended && self.loss.is_none() => Standing::Current,
            Some(place) if place > self.ended && self.loss.is_none() => Standing::Behind,
            _ => Standing::Over,
        }
    }

    /// What is under way is about to be ended: what it takes.
    pub(crate) fn cancel(&mut self) -> Option<CancelKey> {
        self.cancelled_before = self.first + self.exchanges.len() as u64;
        self.key.clone()
    }

    /// True if an exchange may have met the end of another.
    pub(crate) const fn may_be_cancelled(&self, number: u64) -> bool {
        number < self.cancelled_before
    }

    /// Has announcements heard, on the channels that it listens to.
    pub(crate) fn hear(&mut self, hears: Hears) {
        self.hears = Some(hears);
    }

    /// The store is not told how a write on it ends: the feed has its writes.
    pub(crate) fn is_news(&mut self) {
        self.counted = None;
    }

    /// A number that no other connection has.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// The address of the server, if it runs on this machine.
    pub(crate) fn local_server(&self) -> Option<String> {
        self.socket.local_server()
    }

    /// Why it is gone, if it is.
    pub(crate) const fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Where it stood at the last answer.
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// How many exchanges are under way, wanted or not.
    pub(crate) fn under_way(&self) -> usize {
        self.exchanges.len() - self.ended
    }

    /// True if something is under way, and nothing has come for so long: the
    /// server waits, as for the lock of a row.
    pub(crate) fn stalls(&mut self, at_least: Duration) -> bool {
        if self.under_way() == 0 || self.used.elapsed() < at_least {
            return false;
        }
        // What has come may not have been read yet.
        self.read_on();
        self.under_way() > 0 && self.used.elapsed() >= at_least
    }

    /// Says that an exchange is a read that may take long.
    pub(crate) fn may_be_long(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            self.exchanges[place].may_be_long = true;
        }
    }

    /// True if the server has been at a read for so long that other reads should not wait for it.
    pub(crate) fn is_held_up(&mut self, at_least: Duration) -> bool {
        if !self.is_at_long(at_least) {
            return false;
        }
        // What has come may not have been read yet.
        self.read_on();
        self.is_at_long(at_least)
    }

    /// The same, by what has been read.
    pub(crate) fn is_at_long(&self, at_least: Duration) -> bool {
        let current = self.exchanges.get(self.ended);
        current.is_some_and(|current| current.may_be_long)
            && self.current_since.elapsed() >= at_least
    }

    /// True if an exchange follows a read that may take long.
    pub(crate) fn waits_behind_long(&self, number: u64) -> bool {
        self.exchanges.get(self.ended).is_some_and(|current| current.may_be_long)
            && self.place(number).is_some_and(|place| place > self.ended)
    }

    /// The wakers of exchanges that follow a read that may take long.
    fn behind_long(&self) -> impl Iterator<Item = &Waker> {
        let mut all = self.exchanges.iter().skip(self.ended);
        let is_long = all.next().is_some_and(|current| current.may_be_long);
        all.filter(move |_| is_long).filter_map(|exchange| exchange.waker.as_ref())
    }

    /// True if an exchange that is waited for follows a read that may take long.
    pub(crate) fn waits_behind_some_long(&self) -> bool {
        self.behind_long().next().is_some()
    }

    /// Wakes the exchanges that follow a read that may take long.
    pub(crate) fn wake_behind_long(&self) {
        self.behind_long().for_each(Waker::wake_by_ref);
    }

    /// How long the server was at the read whose answer was taken last, if that may take long; once.
    pub(crate) const fn take_took(&mut self) -> Option<Duration> {
        self.took_last.take()
    }

    fn took(&self, number: u64) -> Option<Duration> {
        let place = self.place(number).filter(|place| *place < self.ended)?;
        let exchange = &self.exchanges[place];
        exchange.may_be_long.then_some(exchange.took)
    }

    /// True if nothing is under way; else `waker` is woken when that may have changed.
    pub(crate) fn is_quiet(&mut self, waker: &Waker) -> bool {
        self.read_on();
        self.flush();
        if self.under_way() == 0 || self.loss.is_some() {
            return true;
        }
        self.wait(self.first + self.exchanges.len() as u64 - 1, waker);
        false
    }

    /// The exchange that the server is at, or will be.
    pub(crate) const fn current(&self) -> u64 {
        self.first + self.ended as u64
    }

    /// How many exchanges somebody still waits for.
    pub(crate) fn wanted(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.is_wanted).count()
    }

    /// Checks that the server is still there: always if a write is to be sent, which would have an
    /// unknown outcome, otherwise after a pause or when the watch has seen something. Reads until
    /// nothing is left: a server that ends says so first, and closes the connection after that.
    pub(crate) fn look(&mut self, is_for_reads: bool) {
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

    /// Nobody waits for the answer any more.
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

    /// True if something waits to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Where its answers come through.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        Arc::clone(self.socket.stream())
    }

    /// Hands on what has come, for whoever waits for it.
    pub(crate) fn read_on(&mut self) {
        loop {
            match self.route(u64::MAX) {
                Routed::Some => {}
                Routed::None if self.pump() => {}
                _ => return,
            }
        }
    }

    /// Sends what it can without waiting.
    pub(crate) fn flush(&mut self) {
        if let Err(error) = self.send() {
            self.lose(&error.to_string());
        }
    }

    /// True if the last answer was left before all that has come was looked at,
    /// so that others have their turn; once.
    pub(crate) const fn take_leave(&mut self) -> bool {
        std::mem::replace(&mut self.leaves_turn, false)
    }

    fn place(&self, number: u64) -> Option<usize> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (place < self.exchanges.len()).then_some(place)
    }

    /// Gives each message of an exchange's answer to `take`, as far as it has
    /// come; ready at its end. The exchange is over then.
    ///
    /// # Errors
    /// The connection's loss.
    pub(crate) fn answer(
        &mut self,
        number: u64,
        take: &mut dyn FnMut(Message<'_>),
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
                    // `used` is when it came: the clock is not read again.
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
        // The server may still be at what it was sent.
        self.is_news();
        for exchange in &mut self.exchanges {
            if let Some(waker) = exchange.waker.take() {
                waker.wake();
            }
        }
    }

    /// Says goodbye.
    pub(crate) fn close(&mut self) {
        if self.loss.is_none() {
            frontend::terminate(&mut self.out);
            self.flush();
            self.lose("the engine is closed");
        }
    }
}
