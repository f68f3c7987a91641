//! Reports of answers to the server's observer.

use crate::connection::state::Connection;
use crate::message::thread_locals::ThreadLocals;
use crate::message::writer::Tail;

impl Connection {
    /// Reports the answer that begins at `start` in the output.
    #[inline]
    pub(super) fn record(&mut self, start: usize, tail: Option<&Tail>, local: &mut ThreadLocals) {
        if let Some(observer) = &mut local.observer {
            let request = self.request.as_ref().filter(|_| self.is_known);
            let answer = self.output.get(start..).unwrap_or_default();
            let rest = tail.map_or(0, Tail::body_bytes);
            observer.note_written(request, self.peer, answer, rest);
        }
    }
}
