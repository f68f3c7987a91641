//! The server's side of shared memory: a protocol that carries another one.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use marmota_http::{Protocol, Step, Turn};

use super::ring::Broken;
use super::{BELL, Looking, Side};

/// How long a thread looks for more, where something has come by any memory. It
/// does so between its other connections, which wait no longer for it. Longer than
/// it takes to wake a client on another core.
const LOOKING: Duration = Duration::from_micros(100);
/// So many in a row come by one memory before a thread looks for more: where many
/// clients share few cores, whoever looks keeps them from running.
const ALONE: u32 = 8;
/// How long nothing has come when others are let run.
const YIELDS_AFTER: Duration = Duration::from_micros(3);
/// Bytes given to the protocol at once.
const GIVEN_BYTES: usize = 64 * 1024;
/// Turns of the protocol before other connections get theirs.
const ROUNDS_MAX: usize = 16;
/// How long a client may take to read the last words.
const LAST_MS: u64 = 5_000;
/// Buffers larger than this are not kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// How a thread looks.
#[derive(Clone, Copy, Default)]
struct Watcher {
    looking: Looking,
    /// By which memory something last came, and how often in a row.
    who: u64,
    alone: u32,
    /// When something last came by any memory.
    last: Option<Instant>,
    /// It looks until then.
    until: Option<Instant>,
}

thread_local! {
    static WATCHER: Cell<Watcher> = Cell::default();
}

impl Watcher {
    fn note_news(&mut self, who: u64, now: Instant) {
        if self.until.is_some() {
            self.looking.found();
        }
        self.alone = if self.who == who { self.alone.saturating_add(1) } else { 0 };
        (self.who, self.last) = (who, Some(now));
        let looks = self.alone >= ALONE && self.looking.is_worth_it();
        self.until = looks.then(|| now + LOOKING);
    }

    /// True if it goes on looking, at a moment when nothing is there.
    fn looks(&mut self, now: Instant) -> bool {
        let Some(until) = self.until else { return false };
        let is_over = now >= until;
        if is_over {
            self.looking.missed();
        }
        let is_quiet =
            self.last.is_some_and(|last| now.saturating_duration_since(last) >= YIELDS_AFTER);
        if is_over || is_quiet && !self.looking.lets_others_run(now) {
            self.until = None;
        }
        // What came meanwhile is seen before it sleeps.
        self.until.is_some()
    }
}

/// How a protocol begins.
const HUNGRY: Step = Step::Wait { hungry: true, deadline_ms: u64::MAX };

/// Wakes the connection, and tells that it is not only for a look at the memory.
struct Woken {
    is_woken: AtomicBool,
    outer: Waker,
}

impl Woken {
    fn take(&self) -> bool {
        self.is_woken.load(Ordering::Relaxed) && self.is_woken.swap(false, Ordering::Acquire)
    }

    fn keep(&self) {
        self.is_woken.store(true, Ordering::Release);
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.outer.wake_by_ref();
    }
}

/// See the module.
pub(crate) struct Carried<P> {
    inner: P,
    side: Side,
    /// Tells it from others.
    number: u64,
    /// What the client maps the memory by, until it is sent.
    file: Option<OwnedFd>,
    /// What has come for the protocol, and was not used up.
    input: Vec<u8>,
    output: Vec<u8>,
    /// How much of the output is in the memory.
    sent: usize,
    /// The protocol's last.
    step: Step,
    woken: Option<Arc<Woken>>,
    /// The protocol has ended; its last words are waited for until then.
    ends_ms: Option<u64>,
}

impl<P: Protocol> Carried<P> {
    /// What carries a protocol.
    ///
    /// # Errors
    /// The system's, where it has no memory or no file for it.
    pub(crate) fn new(inner: P) -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (side, file) = Side::of_server()?;
        let (input, output) = (Vec::new(), Vec::new());
        let file = Some(file);
        Ok(Self {
            inner,
            side,
            number,
            file,
            input,
            output,
            sent: 0,
            step: HUNGRY,
            woken: None,
            ends_ms: None,
        })
    }

    /// Moves what is to be sent into the memory; true if that was all.
    fn flush(&mut self) -> Result<bool, Broken> {
        self.sent += self.side.out.put(&self.output[self.sent..])?;
        if self.sent < self.output.len() {
            return Ok(false);
        }
        (self.sent, self.output) = (0, std::mem::take(&mut self.output));
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES_MAX);
        Ok(true)
    }

    /// Gives the protocol what has come, as long as there is something and room for
    /// answers; and its turn where it is due otherwise. Not more often: a write that is
    /// polled again leads those that it would have been one of.
    fn converse(&mut self, turn: &mut Turn<'_>) -> Result<(), Broken> {
        // Whatever has woken it, it has its turn now; what wakes it from now on has the next.
        let is_woken = self.woken.as_ref().is_none_or(|woken| woken.take());
        let mut goes_on = is_woken || self.is_due(turn);
        for _ in 0..ROUNDS_MAX {
            if !self.flush()? || matches!(self.step, Step::Close { .. }) {
                // It has its turn when there is room for what it says.
                self.woken.iter().filter(|_| is_woken).for_each(|woken| woken.keep());
                return Ok(());
            }
            let come = match self.step {
                Step::Wait { hungry: true, .. } => {
                    self.side.come.take(&mut self.input, GIVEN_BYTES)?
                }
                _ => 0,
            };
            if come > 0 {
                let mut watcher = WATCHER.get();
                watcher.note_news(self.number, Instant::now());
                WATCHER.set(watcher);
            } else if !goes_on {
                return Ok(());
            }
            let was = self.step;
            let waker = self.waker(turn);
            let ended = turn.ended;
            let mut within = turn.within(&self.input, ended, &mut self.output);
            within.context = Context::from_waker(&waker);
            self.step = self.inner.go_on(&mut within);
            let used = within.used;
            self.input.drain(..used);
            self.input.shrink_to(KEPT_BYTES_MAX);
            let is_hungry = |step| matches!(step, Step::Wait { hungry: true, .. });
            // What waits in the memory for its hunger has not rung for it.
            goes_on = self.step == Step::More || is_hungry(self.step) && !is_hungry(was);
            if !goes_on && come < GIVEN_BYTES {
                return self.flush().map(drop);
            }
        }
        turn.context.waker().wake_by_ref();
        self.flush().map(drop)
    }

    /// True if the protocol is to have a turn though nothing has come or woken it.
    fn is_due(&self, turn: &Turn<'_>) -> bool {
        let is_late = match self.step {
            Step::Wait { deadline_ms, .. } => turn.now_ms() >= deadline_ms,
            _ => true,
        };
        is_late || turn.ended || turn.is_draining()
    }

    /// What wakes the protocol.
    fn waker(&mut self, turn: &Turn<'_>) -> Waker {
        let woken = self.woken.get_or_insert_with(|| {
            let outer = turn.context.waker().clone();
            Arc::new(Woken { is_woken: AtomicBool::new(false), outer })
        });
        Arc::clone(woken).into()
    }

    fn attempt(&mut self, turn: &mut Turn<'_>) -> Result<Step, Broken> {
        self.converse(turn)?;
        if matches!(self.step, Step::Close { .. }) {
            self.ends_ms.get_or_insert_with(|| turn.now_ms().saturating_add(LAST_MS));
        }
        let is_sent = self.flush()?;
        // Not `||`: both are asked, and one byte wakes it for both.
        if self.side.out.is_to_wake() | self.side.come.is_to_wake() {
            turn.output.push(BELL);
        }
        if let Some(ends_ms) = self.ends_ms {
            let is_over = is_sent || turn.ended || turn.now_ms() >= ends_ms;
            if is_over {
                return Ok(Step::Close { linger: false });
            }
        }
        if turn.ended {
            return Ok(Step::Close { linger: false });
        }
        let ends_ms = self.ends_ms.unwrap_or(u64::MAX);
        let deadline_ms = match self.step {
            Step::Wait { deadline_ms, .. } => deadline_ms.min(ends_ms),
            _ => ends_ms,
        };
        let is_to_go_on = match self.step {
            _ if !is_sent => !self.side.out.waits()?,
            Step::More => true,
            Step::Wait { hungry: true, .. } => self.is_looking() || !self.side.come.sleeps(),
            // What it waits for wakes it.
            _ => false,
        };
        if is_to_go_on {
            turn.context.waker().wake_by_ref();
        }
        Ok(Step::Wait { hungry: true, deadline_ms })
    }

    /// True if it is worth looking for more before sleeping.
    fn is_looking(&self) -> bool {
        let mut watcher = WATCHER.get();
        let looks = watcher.who == self.number && watcher.looks(Instant::now());
        WATCHER.set(watcher);
        looks
    }
}

impl<P: Protocol> Protocol for Carried<P> {
    fn go_on(&mut self, turn: &mut Turn<'_>) -> Step {
        // Bells: that they rang is all they say.
        turn.used = turn.input.len();
        if let Some(file) = self.file.take() {
            turn.pass(file);
            turn.output.push(BELL);
        }
        self.attempt(turn).unwrap_or_else(|Broken| {
            log::info!("a client is cut off that has spoilt its shared memory");
            Step::Close { linger: false }
        })
    }
}
