//! Flood protection for frames that carry neither requests nor bodies: PING, SETTINGS,
//! WINDOW_UPDATE, PRIORITY, RST_STREAM. Each costs the client nothing and the server some work, so
//! a connection has a token bucket for them. Time and the causes of such frames refill it:
//! requests, bodies and answers.
//!
//! The counter reads only the heads of frames, as they pass to `h2`, which decodes them again.

/// The client's preface is not a frame.
const PREFACE_BYTES: usize = super::PREFACE.len();
/// The length of a frame's head (RFC 9113, 4.1).
const FRAME_HEAD_BYTES: usize = 9;
/// Types and flags of frames (RFC 9113, 6): a body's data.
const DATA: u8 = 0;
/// The head of a request, or trailers.
const HEADERS: u8 = 1;
/// The rest of a head that does not fit into one frame.
const CONTINUATION: u8 = 9;
/// The flag of a stream's last frame.
const END_STREAM: u8 = 1;
/// Frames that a request may cause: its priority, windows, reset.
const PER_REQUEST: u64 = 8;
/// Bytes of answers or bodies that may cause a frame: clients widen their windows at every event of
/// a few bytes.
const BYTES_PER_FRAME: u64 = 32;
/// The maximum burst, in seconds of the rate.
const BURST_S: u64 = 10;

/// A counter of a connection's frames as they arrive.
pub(super) struct ControlFrames {
    /// The start of a frame's head that is incomplete.
    head: [u8; FRAME_HEAD_BYTES],
    come: usize,
    /// Bytes of a payload that have not arrived yet.
    payload: usize,
    /// Thousandths of frames that may still arrive.
    left: u64,
    per_second: u64,
    at_ms: u64,
}

impl ControlFrames {
    /// Returns a counter with a full bucket; the first payload is the client's preface.
    pub(super) fn new(per_second: u32, now_ms: u64) -> Self {
        let per_second = u64::from(per_second.max(1));
        Self {
            head: [0; FRAME_HEAD_BYTES],
            come: 0,
            payload: PREFACE_BYTES,
            left: per_second * BURST_S * 1_000,
            per_second,
            at_ms: now_ms,
        }
    }

    /// Notes that bytes of answers were sent.
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.earn(bytes as u64 * 1_000 / BYTES_PER_FRAME);
    }

    /// Adds thousandths of frames to the bucket.
    fn earn(&mut self, thousandths: u64) {
        let max = self.per_second * BURST_S * 1_000;
        self.left = self.left.saturating_add(thousandths).min(max);
    }

    /// Counts the frames in received bytes. Returns false if they are a flood.
    pub(super) fn admit(&mut self, mut bytes: &[u8], now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(std::mem::replace(&mut self.at_ms, now_ms));
        self.earn(passed_ms.saturating_mul(self.per_second));
        loop {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return true;
            }
            let taken = (FRAME_HEAD_BYTES - self.come).min(bytes.len());
            self.head[self.come..self.come + taken].copy_from_slice(&bytes[..taken]);
            self.come += taken;
            bytes = &bytes[taken..];
            if self.come < FRAME_HEAD_BYTES {
                return true;
            }
            self.come = 0;
            if !self.frame() {
                return false;
            }
        }
    }

    /// Counts the frame whose head is complete. Returns false if the bucket is empty.
    fn frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        self.payload = length as usize;
        match kind {
            HEADERS => self.earn(PER_REQUEST * 1_000),
            // `h2` counts heads without an end.
            CONTINUATION => {}
            DATA if length > 0 => self.earn(u64::from(length) * 1_000 / BYTES_PER_FRAME),
            DATA if flags & END_STREAM != 0 => {}
            _ => match self.left.checked_sub(1_000) {
                Some(left) => self.left = left,
                None => return false,
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let head = [0, 0, length, kind, flags, 0, 0, 0, 1];
        [&head[..], &vec![b'x'; usize::from(length)]].concat()
    }

    #[test]
    fn frames_that_nothing_explains_are_a_flood() {
        for kind in [2, 3, 4, 6, 8, 77] {
            let after_a_burst = || {
                let mut frames = ControlFrames::new(10, 0);
                assert!(frames.admit(&[b'P'; PREFACE_BYTES], 0));
                assert!(frames.admit(&frame(kind, 0, 5).repeat(100), 0), "a burst of ten seconds'");
                frames
            };
            // A connection ends after a refused frame, so each case uses a new one.
            assert!(!after_a_burst().admit(&frame(kind, 0, 5), 0));
            let mut later = after_a_burst();
            assert!(later.admit(&frame(kind, 0, 5).repeat(10), 1_000), "one second's more");
            assert!(!later.admit(&frame(kind, 0, 5), 1_000));
        }
    }

    #[test]
    fn requests_bodies_and_answers_explain_frames() {
        let mut frames = ControlFrames::new(1, 0);
        assert!(frames.admit(&[b'P'; PREFACE_BYTES], 0));
        for _ in 0..1_000 {
            let pieces = [frame(1, 4, 20), frame(8, 0, 4).repeat(4), frame(0, 0, 255)];
            assert!(frames.admit(&pieces.concat(), 0));
            frames.note_sent(1_000);
            assert!(frames.admit(&frame(8, 0, 4).repeat(5), 0));
        }
        // In pieces of any length.
        let bytes = [frame(1, 4, 20), frame(0, 1, 0), frame(2, 0, 5)].concat();
        for _ in 0..1_000 {
            assert!(bytes.iter().all(|byte| frames.admit(&[*byte], 0)));
        }
        assert!(!frames.admit(&frame(0, 0, 0).repeat(100), 0), "empty frames of a body");
    }
}
