//! The server's side of one client's connection: bytes in, bytes out. It owns no socket and no
//! thread; the transport calls it.
//!
//! Operations of a connection run concurrently, up to the service's limit, and are answered as they
//! complete. Within a transaction they run one after the other.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use marmota_model::{Error, ErrorKind, Result, Table};
use marmota_rpc::{ConnectionEnd, Credential, Packet, ServerProtocol, packet};
use marmota_store::engine::ReadsMeanwhile;
use marmota_store::history::HISTORY_TABLE;
use marmota_store::refusal;
use marmota_store::{Store, Transaction};

use super::settings::{Finding, Settings, StoreFor};
use super::submission::{self, Begun, Ground, Submission, put_done, put_failure};
use super::transactions::{Clock, Counted, TakenBack, caller_key, check_right};
use crate::codec::bytes::{Bytes, broken};
use crate::codec::contract::{
    Guarantees, Hello, Welcome, hash, put_differences, put_names, put_welcome,
};
use crate::codec::operation::{CANCEL, HELLO, ReceivedOperation, Terms};
use crate::codec::outcome::{FAILED, LEAVING, put_error};

/// The size of unsent answers above which no more is read.
const AHEAD_BYTES: usize = 1 << 20;
/// The maximum size of a hello in bytes.
const HELLO_BYTES_MAX: usize = 1 << 20;

/// One client's connection.
pub(crate) struct Peer {
    settings: Arc<Settings>,
    /// The client's credential: from the hello, or earlier, for example from an HTTP header.
    credential: Credential,
    greeted: Option<Greeted>,
    /// Received bytes that were not processed yet.
    input: Vec<u8>,
    running: Vec<Submission>,
    /// The packet whose client is being looked up; later packets wait.
    held: Option<Box<Held>>,
    transaction: InTransaction,
    /// True if the connection ends after the current output.
    is_closing: bool,
    /// Complete packets wait in the input.
    waits_to_read: bool,
    /// They wait for room in the output.
    is_full: bool,
}

/// A client that was greeted.
struct Greeted {
    store: Store,
    tables: Vec<Arc<Table>>,
}

/// A packet that waits until its client is authenticated.
struct Held {
    finding: Finding,
    number: u32,
    body: Box<[u8]>,
}

/// The effect of the running operation on its transaction.
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
        clock: Clock,
        step: Step,
        _counted: Counted,
    },
    /// The server rolled it back; the client was not notified yet.
    Expired(TakenBack),
}

impl Peer {
    pub(crate) fn new(settings: Arc<Settings>, credential: Credential) -> Self {
        Self {
            settings,
            credential,
            greeted: None,
            input: Vec::new(),
            running: Vec::new(),
            held: None,
            transaction: InTransaction::No,
            is_closing: false,
            waits_to_read: false,
            is_full: false,
        }
    }

    /// Creates a peer whose client was greeted, and has the tables of the store.
    pub(crate) fn of_known(settings: Arc<Settings>) -> Self {
        let store = settings.store.clone();
        let tables = store.registry().tables().to_vec();
        let mut peer = Self::new(settings, Credential::default());
        peer.greeted = Some(Greeted { store, tables });
        peer
    }

    fn go_on_running(&mut self, out: &mut Vec<u8>, context: &mut Context<'_>) {
        self.take_back(out);
        if self.running.is_empty() {
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
            // It is not polled again: an operation that no one waits for should not be executed.
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

    /// Rolls back a transaction that has been open for too long, and refuses the operation that is
    /// running in it.
    fn take_back(&mut self, out: &mut Vec<u8>) {
        let InTransaction::Open { clock, step, transaction, .. } = &self.transaction else {
            return;
        };
        let passed = clock.passed(&self.settings.limits, self.running.is_empty());
        let Some(why) = passed.filter(|_| *step != Step::Ends) else { return };
        for mut one in self.running.drain(..) {
            one.refuse(transaction, why.error(&self.settings.limits), out);
        }
        self.transaction = InTransaction::Expired(why);
    }

    /// Processes packets that are complete and may start; returns the number of their bytes.
    fn read(&mut self, all: &[u8], out: &mut Vec<u8>, context: &mut Context<'_>) -> Result<usize> {
        let (start, mut read) = (out.len(), 0);
        loop {
            let bytes_max = match self.greeted {
                Some(_) => self.settings.packet_bytes_max,
                None => HELLO_BYTES_MAX,
            };
            let Some(packet) = packet::first(&all[read..], bytes_max)? else { return Ok(read) };
            let is_cancel = packet.body.first() == Some(&CANCEL);
            self.is_full = out.len() - start > AHEAD_BYTES;
            let waits = self.is_full || self.is_busy();
            self.waits_to_read = self.held.is_some() || !is_cancel && waits;
            if self.waits_to_read {
                return Ok(read);
            }
            self.take(packet, out, context)?;
            read += packet.bytes();
        }
    }

    /// Returns true if no further operation may start.
    fn is_busy(&self) -> bool {
        match self.transaction {
            InTransaction::Open { .. } => !self.running.is_empty(),
            _ => self.running.len() >= self.settings.operations_max,
        }
    }

    fn take(
        &mut self,
        packet: Packet<'_>,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut read = Bytes::new(packet.body);
        match (&self.greeted, read.u8()?) {
            (None, HELLO) => {
                let found = match Hello::read(read.rest()) {
                    Ok(hello) => {
                        if !hello.credential.is_empty() {
                            self.credential = Credential::new(hello.credential);
                        }
                        self.settings.store_for(self.credential.as_bytes())
                    }
                    Err(error) => StoreFor::Now(Err(error)),
                };
                self.find(found, packet, out, context)
            }
            (None, _) => Err(broken("comes before a hello")),
            (Some(_), CANCEL) => {
                self.cancel(read.int()?, out);
                Ok(())
            }
            (Some(_), _) if self.settings.admit.is_none() || self.waits_for_itself() => {
                self.proceed(None, packet.number, packet.body, out, context)
            }
            // Checked as for each HTTP request: the rights granted at the hello may have been
            // revoked or have expired.
            (Some(_), _) => {
                let found = self.settings.store_for(self.credential.as_bytes());
                self.find(found, packet, out, context)
            }
        }
    }

    /// Returns true if a look-up of the client would wait for the end of the client's own
    /// transaction. Then the transaction keeps the rights that it started with, and its caller is
    /// not looked up again.
    fn waits_for_itself(&self) -> bool {
        matches!(self.transaction, InTransaction::Open { .. })
            && self.settings.store.capability().reads_meanwhile == ReadsMeanwhile::Wait
    }

    /// Processes a packet as soon as its client is authenticated.
    fn find(
        &mut self,
        found: StoreFor,
        packet: Packet<'_>,
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        match found {
            StoreFor::Now(store) => {
                self.proceed(Some(store), packet.number, packet.body, out, context)
            }
            StoreFor::Later(finding) => {
                let (number, body) = (packet.number, packet.body.into());
                self.held = Some(Box::new(Held { finding, number, body }));
                self.go_on_held(out, context)
            }
        }
    }

    fn go_on_held(&mut self, out: &mut Vec<u8>, context: &mut Context<'_>) -> Result<()> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let Poll::Ready(store) = held.finding.as_mut().poll(context) else { return Ok(()) };
        match self.held.take() {
            Some(held) => self.proceed(Some(store), held.number, &held.body, out, context),
            None => Ok(()),
        }
    }

    /// Executes a packet for a client with this store, or with its previous one.
    fn proceed(
        &mut self,
        store: Option<Result<Store>>,
        number: u32,
        body: &[u8],
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(mut greeted) = self.greeted.take() else {
            self.greet(store, number, body, out);
            return Ok(());
        };
        let begun = self.begin(&mut greeted, store, (number, body), out, context);
        self.greeted = Some(greeted);
        begun
    }

    fn begin(
        &mut self,
        greeted: &mut Greeted,
        store: Option<Result<Store>>,
        (number, body): (u32, &[u8]),
        out: &mut Vec<u8>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut read = Bytes::new(body);
        let verb = read.u8()?;
        let terms = Terms::read(&mut read)?;
        let asked = ReceivedOperation::read(verb, read, &greeted.tables)?;
        let readmitted = match store.transpose() {
            Ok(store) => store.and_then(|store| self.readmit(store, &mut greeted.store)),
            Err(error) => {
                self.transaction.undo(&asked);
                put_failure(out, number, &error);
                return Ok(());
            }
        };
        match self.admit(&asked, &greeted.store) {
            Ok(Admitted::Begins) => {}
            Ok(Admitted::Void) => {
                put_done(out, number);
                return Ok(());
            }
            Err(error) => {
                put_failure(out, number, &error);
                return Ok(());
            }
        }
        let acting = self.acting(greeted, &asked).or(readmitted);
        let scope = self.transaction.scope(&greeted.store);
        let ground = Ground { settings: &self.settings, tables: &greeted.tables, scope };
        let begun = submission::begin(ground, acting, number, body, asked, terms, out);
        match begun {
            Begun::Answered(is_done) => self.transaction.rest(is_done),
            Begun::Waits(mut one) => match one.poll(ground, out, context) {
                Poll::Ready(is_done) => self.transaction.rest(is_done),
                Poll::Pending => self.running.push(*one),
            },
        }
        Ok(())
    }

    /// Sets the current store of a client. While other operations are running with the previous
    /// store, it is returned for this operation only.
    fn readmit(&mut self, store: Store, current: &mut Store) -> Option<Store> {
        match &self.transaction {
            // A transaction keeps the rights that it started with until it ends.
            InTransaction::Open { .. } => None,
            _ if self.running.is_empty() => {
                *current = store;
                None
            }
            _ => Some(store),
        }
    }

    /// Returns a store for the actor that a batch declares, if declared actors are trusted. In a
    /// transaction, sets the transaction's actor instead.
    fn acting(&mut self, greeted: &Greeted, asked: &ReceivedOperation<'_, '_>) -> Option<Store> {
        let ReceivedOperation::Batch(batch) = asked else { return None };
        let actor = batch.actor.as_ref().filter(|_| self.settings.takes_actors)?;
        match &mut self.transaction {
            InTransaction::Open { transaction, .. } => {
                transaction.act_as(&**actor);
                None
            }
            _ => Some(greeted.store.with_actor(&**actor)),
        }
    }

    /// Classifies an operation by the state of its connection.
    fn admit(&mut self, asked: &ReceivedOperation<'_, '_>, store: &Store) -> Result<Admitted> {
        let is_step = matches!(
            asked,
            ReceivedOperation::Commit
                | ReceivedOperation::Rollback
                | ReceivedOperation::Savepoint(_)
                | ReceivedOperation::Release(_)
                | ReceivedOperation::RollbackTo(_)
        );
        match &mut self.transaction {
            InTransaction::Expired(_) if matches!(asked, ReceivedOperation::Rollback) => {
                self.transaction = InTransaction::No;
                Ok(Admitted::Void)
            }
            InTransaction::Expired(why) => {
                let error = why.error(&self.settings.limits);
                self.transaction.undo(asked);
                Err(error)
            }
            InTransaction::Open { .. } if matches!(asked, ReceivedOperation::Begin) => {
                Err(refusal::transaction_is_open())
            }
            InTransaction::Open { step, .. } => {
                let ends = matches!(asked, ReceivedOperation::Commit | ReceivedOperation::Rollback);
                *step = if ends { Step::Ends } else { Step::Within };
                Ok(Admitted::Begins)
            }
            InTransaction::No if matches!(asked, ReceivedOperation::Begin) => {
                if !self.running.is_empty() {
                    return Err(broken("begins a transaction among other operations"));
                }
                self.transaction = self.open(store)?;
                Ok(Admitted::Begins)
            }
            InTransaction::No if is_step => Err(refusal::no_transaction()),
            InTransaction::No => Ok(Admitted::Begins),
        }
    }

    fn open(&self, store: &Store) -> Result<InTransaction> {
        check_right(store)?;
        let credential = self.settings.admit.is_some().then_some(self.credential.as_bytes());
        let caller = caller_key(store, credential);
        let counted = self.settings.transactions.count(caller, &self.settings.limits)?;
        Ok(InTransaction::Open {
            transaction: Box::new(Transaction::detached(store)?),
            clock: Clock::start(),
            step: Step::Begins,
            _counted: counted,
        })
    }

    fn cancel(&mut self, number: i64, out: &mut Vec<u8>) {
        let Some(place) = self.running.iter().position(|one| i64::from(one.number) == number)
        else {
            return;
        };
        let Some(greeted) = &self.greeted else { return };
        let mut one = self.running.swap_remove(place);
        let error = Error::new(ErrorKind::Timeout, "the operation was canceled by its client");
        one.refuse(self.transaction.scope(&greeted.store), error, out);
        self.transaction.rest(false);
    }

    fn greet(&mut self, store: Option<Result<Store>>, number: u32, body: &[u8], out: &mut Vec<u8>) {
        let start = packet::begin(out, number);
        let store = store.unwrap_or_else(|| Ok(self.settings.store.clone()));
        if let Err(error) = store.and_then(|store| self.welcome(store, body, out)) {
            out.truncate(start + packet::HEAD_BYTES);
            out.push(FAILED);
            put_error(out, &error);
            self.is_closing = true;
        }
        packet::end(out, start);
    }

    fn welcome(&mut self, store: Store, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut read = Bytes::new(body);
        read.u8()?;
        let hello = Hello::read(read.rest())?;
        if self.settings.admit.is_none() {
            self.credential = Credential::default();
        }
        let mut tables = Vec::with_capacity(hello.tables.len());
        let mut other = Vec::new();
        for (name, theirs) in hello.tables {
            let table = Arc::clone(store.exposed_to_remote(name).map_err(|error| match name {
                HISTORY_TABLE => no_history(),
                _ => error,
            })?);
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
                guarantees: Guarantees::of(store.capability()),
                packet_bytes_max: self.settings.packet_bytes_max as u64,
                operations_max: self.settings.operations_max as u64,
            },
        );
        if hello.lists_tables {
            let history = store.exposed_to_remote(HISTORY_TABLE).ok();
            let served: Vec<&Arc<Table>> = store.exposed_tables().chain(history).collect();
            put_names(out, served.iter().map(|table| table.name()));
        }
        self.greeted = Some(Greeted { store, tables });
        Ok(())
    }
}

#[cold]
fn no_history() -> Error {
    let message = "the client has audited models, but the served store has no history: declare the \
                   models the same way on both sides (`#[model(audit)]`)";
    Error::new(ErrorKind::Unsupported, message)
}

impl ServerProtocol for Peer {
    /// Keeps the bytes that it cannot process yet.
    fn run(&mut self, bytes: &[u8], out: &mut Vec<u8>, context: &mut Context<'_>) -> usize {
        self.go_on_running(out, context);
        if self.is_closing {
            return bytes.len();
        }
        self.is_full = false;
        if let Err(error) = self.go_on_held(out, context) {
            put_failure(out, 0, &error);
            self.is_closing = true;
            return bytes.len();
        }
        let mut kept = std::mem::take(&mut self.input);
        // Usually all bytes are processed at once and none are kept.
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
        bytes.len()
    }

    fn end(&self) -> Option<ConnectionEnd> {
        self.is_closing.then_some(ConnectionEnd::Refused)
    }

    fn is_hungry(&self) -> bool {
        !self.is_closing && !self.waits_to_read
    }

    fn is_idle(&self) -> bool {
        self.held.is_none()
            && self.running.is_empty()
            && !matches!(self.transaction, InTransaction::Open { .. })
    }

    /// Notifies the client that its other operations were not executed, so that it sends them again.
    fn leave(&mut self, out: &mut Vec<u8>) {
        if self.greeted.is_some() {
            let start = packet::begin(out, 0);
            out.push(LEAVING);
            packet::end(out, start);
        }
        self.is_closing = true;
    }

    fn has_more(&self) -> bool {
        self.is_full
    }

    fn deadline(&self) -> Option<Instant> {
        let late = self.running.iter().filter_map(|one| one.until()).min();
        let open = match &self.transaction {
            // A commit is awaited: the client must learn its result.
            InTransaction::Open { step: Step::Ends, .. } => None,
            InTransaction::Open { clock, .. } => {
                clock.deadline(&self.settings.limits, self.running.is_empty())
            }
            _ => None,
        };
        [late, open].into_iter().flatten().min()
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

/// The effect of an operation, by the state of its connection.
enum Admitted {
    Begins,
    /// There is nothing to do.
    Void,
}

impl InTransaction {
    fn scope<'s>(&'s self, store: &'s Store) -> &'s Store {
        match self {
            Self::Open { transaction, .. } => transaction,
            _ => store,
        }
    }

    /// Rolls back, for an operation that is refused. Only the refusal of a commit or rollback shows
    /// the client that the transaction has ended.
    fn undo(&mut self, refused: &ReceivedOperation<'_, '_>) {
        let ends = matches!(refused, ReceivedOperation::Commit | ReceivedOperation::Rollback);
        *self = match self {
            Self::No => Self::No,
            _ if ends => Self::No,
            Self::Expired(why) => Self::Expired(*why),
            Self::Open { .. } => Self::Expired(TakenBack::Refused),
        };
    }

    /// An operation has ended, successfully or not, and none is running. A failed commit has rolled
    /// the transaction back, a failed begin has not started one.
    fn rest(&mut self, is_done: bool) {
        match self {
            Self::Open { step: Step::Ends, .. } => *self = Self::No,
            Self::Open { step: Step::Begins, .. } if !is_done => *self = Self::No,
            // The time that it waited to start does not count.
            Self::Open { step: Step::Begins, clock, .. } => *clock = Clock::start(),
            Self::Open { clock, .. } => clock.rest(),
            _ => {}
        }
    }
}
