//! The end of a connection whose client may still be sending. Closing at once would make the kernel
//! answer with a reset, which may overtake the last answer (RFC 9112, 9.6). So the write side is
//! shut down, and input is discarded until the client closes too, for a limited time and number of
//! bytes.

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use crate::connection::state::Intake;
use crate::connection::state::{Connection, Fate, Phase, READ_BYTES, Timing, make_room};
use crate::message::protocol::LINGER_MS;
use crate::message::thread_locals::ThreadLocals;

impl Connection {
    /// Shuts down the write side, and begins to discard up to this many bytes of input, for up to
    /// [`LINGER_MS`].
    pub(super) fn start_lingering(&mut self, bytes_max: usize, local: &mut ThreadLocals) {
        self.phase = Phase::Lingering { left: bytes_max };
        // The answer is sent; if the shutdown fails the client is gone, and reading reports it.
        let _ = shutdown(&self.socket, Shutdown::Write);
        self.set_deadline(Timing::Linger, local.now_ms + LINGER_MS);
        self.readable = self.intake == Intake::Own;
        if let Some(request) = self.request.take() {
            local.give_exchange(request);
        }
        local.give_output(std::mem::take(&mut self.output));
    }

    /// Discards input until the client closes too. Returns `Drop` then, and when the limit is
    /// reached.
    pub(super) fn discard(&mut self, local: &mut ThreadLocals) -> Fate {
        let Phase::Lingering { left } = &mut self.phase else { return Fate::Drop };
        if self.intake != Intake::Own {
            let over = self.ended || *left == 0;
            return if over { Fate::Drop } else { Fate::Keep };
        }
        let mut scratch = local.take_output();
        make_room(&mut scratch, READ_BYTES);
        let fate = loop {
            scratch.clear();
            match recv(&self.socket, spare_capacity(&mut scratch), RecvFlags::empty()) {
                Ok((0, _)) => break Fate::Drop,
                Ok((count, _)) => {
                    *left = left.saturating_sub(count);
                    if *left == 0 {
                        break Fate::Drop;
                    }
                }
                Err(Errno::AGAIN) => break Fate::Keep,
                Err(Errno::INTR) => {}
                Err(_) => break Fate::Drop,
            }
        };
        local.give_output(scratch);
        fate
    }
}
