//! One client's connection as the server sees it: bytes in, bytes out. It owns
//! no socket and no thread; whoever carries the bytes calls it.
//!
//! Operations of a connection are under way at once, as many as the service
//! allows, and answered as they are done. Within a transaction they come one
//! after the other.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_store::{Scope, Store, Transaction};

use super::Settings;
use super::submission::{self, Begun, Ground, Submission, put_done, put_failure};
use crate::codec::bytes::{Bytes, broken};
use crate::codec::contract::{Hello, Welcome, hash, put_differences, put_welcome};
use crate::codec::frame::{self, Frame};
use crate::codec::operation::{Asked, CANCEL, HELLO, Terms};
use crate::codec::outcome::{FAILED, put_error};

/// Bytes of answers that may wait for the client before more is read.
const AHEAD_BYTES: usize = 1 << 20;
/// Bytes of a hello at most.
const HELLO_BYTES_MAX: usize = 1 << 20;

/// See the module.
pub(crate) struct Peer {
    settings: Arc<Settings>,
    /// What was shown: in the hello, or before it, such as in HTTP's head.
    credential: Vec<u8>,
    greeted: Option<Greeted>,
    /// What has come and was not read yet.
    input: Vec<u8>,
    running: Vec<Submission>,
    transaction: InTransaction,
    is_closing: bool,
    /// Whole packets wait in the input.
    waits_to_read: bool,
    /// They wait for room in what is written.
    is_full: bool,
}

/// A client that is known.
struct Greeted {
    store: Store,
    tables: Vec<Arc<Table>>,
}

/// What the operation that is under way does to its transaction.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Begins,
    Within,
    Ends,
}

#[derive(Default)]
enum InTransaction {
    #[default]
    No,
    Open {
        transaction: Box<Transaction>,
        idle_since: Instant,
        step: Step,
    },
    /// Its lease ran out; the client does not know yet.
    Expired,
}

impl Peer {
    pub(crate) fn new(settings: Arc<Settings>, credential: Vec<u8>) -> Self {
        Self {
            settings,
            credential,
            greeted: None,
            input: Vec::new(),
            running: Vec::new(),
            transaction: InTransaction::No,
            is_closing: false,
            waits_to_read: false,
            is_full: false,
        }
    }

    /// One whose client was greeted, and has the tables of the store.
    pub(crate) fn of_known(settings: Arc<Settings>) -> Self {
        let store = settings.store.clone();
        let tables = store.registry().tables().to_vec();
        let mut peer = Self::new(settings, Vec::new());
        peer.greeted = Some(Greeted { store, tables });
        peer
    }

    /// True if it takes more bytes now.
    pub(crate) fn is_hungry(&self) -> bool {
        !self.is_closing && !self.waits_to_read
    }

    /// True if it is to be called again once what it wrote has left.
    pub(crate) const fn has_more(&self) -> bool {
        self.is_full
    }

    /// True once nothing more will come of it than what it has written.
    pub(crate) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// True if nothing is under way, nor a transaction open.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && !matches!(self.transaction, InTransaction::Open { .. })
    }

    /// When it is to be called at the latest, though nothing has come.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let late = self.running.iter().filter_map(|one| one.until()).min();
        let lease = match &self.transaction {
            InTransaction::Open { idle_since, .. } if self.running.is_empty() => {
                idle_since.checked_add(self.settings.lease)
            }
            _ => None,
        };
        [late, lease].into_iter().flatten().min()
    }

    /// Takes bytes that have come and does all that can be done now.
    pub(crate) fn go_on(&mut self, bytes: &[u8], out: &mut Vec<u8>, context: &mut Context<'_>) {
        self.go_on_running(out, context);
        if self.is_closing {
            return;
        }
        self.is_full = false;
        let mut kept = std::mem::take(&mut self.input);
        // Most of the time all that has come is read at once, and nothing kept.
        if !kept.is_empty() {
            kept.extend_from_slice(bytes);
        }
        let all = if kept.is_empty() { bytes } else { &kept[..] };
        match self.read(all, out, context) {
            Ok(read) if kept.is_empty() => kept.extend_from_slice(&bytes[read..]),
            Ok(read) => drop(kept.drain(..read)),
            Err(error) => {
                put_failure(out, 0, &error);
                self.is_closing = true;
            }
        }
        self.input = kept;
    }

    fn go_on_running(&mut self, out: &mut Vec<u8>, context: &mut Context<'_>) {
        if self.running.is_empty() {
            self.check_lease();
            return;
        }
        let Self { running, greeted: Some(greeted), transaction, settings, .. } = self else {
            return;
        };
        let now = Instant::now();
        let scope = transaction.scope(&greeted.store);
        let ground = Ground { settings, tables: &greeted.tables, scope };
        let mut is_done = true;
        running.retain_mut(|one| {
            // Not polled any more: what nobody waits for had better not take place.
            if one.is_late(now) {
                is_done = false;
                one.refuse(scope, one.late(), out);
                return false;
            }
            match one.poll(ground, out, context) {
                Poll::Ready(done) => {
                    is_done &= done;
                    false
                }
                Poll::Pending => true,
            }
        });
        if running.is_empty() {
            transaction.rest(is_done);
        }
    }

    fn check_lease(&mut self) {
        if let InTransaction::Open { idle_since, .. } = &self.transaction
            && idle_since.elapsed() >= self.settings.lease
        {
            self.transaction = InTransaction::Expired;
        }
    }

    /// Reads packets as far as they are whole and may be begun; gives how many
    /// bytes that were.
    fn read(&mut self, all: &[u8], out: &mut Vec<u8>, context: &mut Context<'_>) -> Result<usize> {
        let (start, mut read) = (out.len(), 0);
        loop {
            let bytes_max = match self.greeted {
                Some(_) => self.settings.packet_bytes_max,
                None => HELLO_BYTES_MAX,
            };
            let Some(frame) = Frame::first(&all[read..], bytes_max)? else { return Ok(read) };
            let is_cancel = frame.body.first() == Some(&CANCEL);
            self.is_full = out.len() - start > AHEAD_BYTES;
            self.waits_to_read = !is_cancel && (self.is_full || self.is_busy());
            if self.waits_to_read {
                return Ok(read);
            }
            self.take(frame, out, context)?;
            read += frame.bytes();
        }
    }

    /// True if no further operation may be begun.
    fn is_busy(&self) -> bool {
        match self.transaction {
            InTransaction::Open { .. } => !self.running.is_empty(),
            _ => self.running.len() >= self.settings.operations_max,
        }
    }

    fn take(
        &mut self,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut read = Bytes::new(frame.body);
        let verb = read.u8()?;
        match (&self.greeted, verb) {
            (None, HELLO) => return self.greet(frame.number, read, out),
            (None, _) => return Err(broken("comes before a hello")),
            (Some(_), CANCEL) => {
                self.cancel(read.int()?, out);
                return Ok(());
            }
            _ => {}
        }
        let Some(mut greeted) = self.greeted.take() else { return Ok(()) };
        let begun = self.begin(&mut greeted, frame, verb, read, out, context);
        self.greeted = Some(greeted);
        begun
    }

    fn begin(
        &mut self,
        greeted: &mut Greeted,
        frame: Frame<'_>,
        verb: u8,
        mut read: Bytes<'_>,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let terms = Terms::read(&mut read)?;
        let asked = Asked::read(verb, read, &greeted.tables)?;
        let readmitted = match self.readmit(&mut greeted.store) {
            Ok(readmitted) => readmitted,
            Err(error) => {
                self.transaction.undo(&asked);
                put_failure(out, frame.number, &error);
                return Ok(());
            }
        };
        match self.transaction.admit(&asked, &greeted.store, !self.running.is_empty()) {
            Ok(Admitted::Begins) => {}
            Ok(Admitted::Void) => {
                put_done(out, frame.number);
                return Ok(());
            }
            Err(error) => {
                put_failure(out, frame.number, &error);
                return Ok(());
            }
        }
        let acting = self.acting(greeted, &asked).or(readmitted);
        let scope = self.transaction.scope(&greeted.store);
        let ground = Ground { settings: &self.settings, tables: &greeted.tables, scope };
        let begun = submission::begin(ground, acting, frame.number, frame.body, asked, terms, out);
        match begun {
            Begun::Answered(is_done) => self.transaction.rest(is_done),
            Begun::Waits(mut one) => match one.poll(ground, out, context) {
                Poll::Ready(is_done) => self.transaction.rest(is_done),
                Poll::Pending => self.running.push(*one),
            },
        }
        Ok(())
    }

    /// Asks again who this is, as for each request of HTTP: what was granted at the
    /// hello may have been taken back since, or have ended. Gives the store for
    /// this operation alone, where others are under way under what they began with.
    fn readmit(&mut self, current: &mut Store) -> Result<Option<Store>> {
        if self.settings.admit.is_none() {
            return Ok(None);
        }
        let store = self.settings.store_for(&self.credential)?;
        match &self.transaction {
            // It keeps the rights that it began with, until it ends.
            InTransaction::Open { .. } => Ok(None),
            _ if self.running.is_empty() => {
                *current = store;
                Ok(None)
            }
            _ => Ok(Some(store)),
        }
    }

    /// The scope of who is said to write, where that is believed and another.
    fn acting(&mut self, greeted: &Greeted, asked: &Asked<'_, '_>) -> Option<Store> {
        let Asked::Batch(batch) = asked else { return None };
        let actor = batch.actor.as_ref().filter(|_| self.settings.takes_actors)?;
        match &mut self.transaction {
            InTransaction::Open { transaction, .. } => {
                transaction.act_as(&**actor);
                None
            }
            _ => Some(greeted.store.acting_as(&**actor)),
        }
    }

    fn cancel(&mut self, number: i64, out: &mut Vec<u8>) {
        let Some(place) = self.running.iter().position(|one| i64::from(one.number) == number)
        else {
            return;
        };
        let Some(greeted) = &self.greeted else { return };
        let mut one = self.running.swap_remove(place);
        let error = Error::new(ErrorKind::Timeout, "the operation was given up by its client");
        one.refuse(self.transaction.scope(&greeted.store), error, out);
        self.transaction.rest(false);
    }

    fn greet(&mut self, number: u32, read: Bytes<'_>, out: &mut Vec<u8>) -> Result<()> {
        let start = frame::begin(out, number);
        if let Err(error) = self.welcome(read.rest(), out) {
            out.truncate(start + frame::HEAD_BYTES);
            out.push(FAILED);
            put_error(out, &error);
            self.is_closing = true;
        }
        frame::end(out, start);
        Ok(())
    }

    fn welcome(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let hello = Hello::read(body)?;
        let credential =
            if hello.credential.is_empty() { &self.credential[..] } else { hello.credential };
        let store = self.settings.store_for(credential)?;
        self.credential = match self.settings.admit {
            Some(_) => credential.to_vec(),
            None => Vec::new(),
        };
        let mut tables = Vec::with_capacity(hello.tables.len());
        let mut other = Vec::new();
        for (name, theirs) in hello.tables {
            let table = store.table(name)?;
            if hash(&table) != theirs {
                other.push(Arc::clone(&table));
            }
            tables.push(table);
        }
        if !other.is_empty() {
            let other: Vec<&Table> = other.iter().map(|table| &**table).collect();
            put_differences(out, &other);
            self.is_closing = true;
            return Ok(());
        }
        put_welcome(
            out,
            Welcome {
                packet_bytes_max: self.settings.packet_bytes_max as u64,
                operations_max: self.settings.operations_max as u64,
            },
        );
        self.greeted = Some(Greeted { store, tables });
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(greeted) = &self.greeted {
            let scope = self.transaction.scope(&greeted.store);
            self.running.iter_mut().for_each(|one| one.give_up(scope));
        }
    }
}

/// What an operation is in the state of its connection.
enum Admitted {
    Begins,
    /// There is nothing left to do.
    Void,
}

impl InTransaction {
    fn scope<'s>(&'s self, store: &'s Store) -> &'s Scope {
        match self {
            Self::Open { transaction, .. } => transaction,
            _ => store,
        }
    }

    fn admit(&mut self, asked: &Asked<'_, '_>, store: &Store, is_busy: bool) -> Result<Admitted> {
        let is_step = matches!(
            asked,
            Asked::Commit
                | Asked::Rollback
                | Asked::Savepoint(_)
                | Asked::Release(_)
                | Asked::RollbackTo(_)
        );
        match self {
            Self::Expired if matches!(asked, Asked::Rollback) => {
                *self = Self::No;
                Ok(Admitted::Void)
            }
            Self::Expired => {
                self.undo(asked);
                let message = "the transaction stood idle beyond its lease and was undone; begin \
                               another, and keep it short";
                Err(Error::new(ErrorKind::Timeout, message))
            }
            Self::Open { .. } if matches!(asked, Asked::Begin) => {
                let message = "a transaction is open already; set a savepoint in it";
                Err(Error::new(ErrorKind::Invalid, message))
            }
            Self::Open { step, .. } => {
                let ends = matches!(asked, Asked::Commit | Asked::Rollback);
                *step = if ends { Step::Ends } else { Step::Within };
                Ok(Admitted::Begins)
            }
            Self::No if matches!(asked, Asked::Begin) => {
                if is_busy {
                    return Err(broken("begins a transaction among other operations"));
                }
                let transaction = Box::new(Transaction::unbegun(store)?);
                let (idle_since, step) = (Instant::now(), Step::Begins);
                *self = Self::Open { transaction, idle_since, step };
                Ok(Admitted::Begins)
            }
            Self::No if is_step => {
                let message = "no transaction is open on this connection; begin one";
                Err(Error::new(ErrorKind::Invalid, message))
            }
            Self::No => Ok(Admitted::Begins),
        }
    }

    /// Undoes it, for an operation that is refused; its client knows by the refusal of
    /// a commit or rollback that it has ended, and by no other.
    fn undo(&mut self, refused: &Asked<'_, '_>) {
        let ends = matches!(refused, Asked::Commit | Asked::Rollback);
        *self = match self {
            Self::No => Self::No,
            _ if ends => Self::No,
            _ => Self::Expired,
        };
    }

    /// An operation has ended, done or not, and none is under way. A commit
    /// that fails has undone the transaction, a begin that fails has made none.
    fn rest(&mut self, is_done: bool) {
        match self {
            Self::Open { step: Step::Ends, .. } => *self = Self::No,
            Self::Open { step: Step::Begins, .. } if !is_done => *self = Self::No,
            Self::Open { idle_since, .. } => *idle_since = Instant::now(),
            _ => {}
        }
    }
}
