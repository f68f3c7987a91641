//! Packets of other protocols on a connection upgraded from HTTP, as [`crate::Channel`] sends and
//! receives them; for the server's side.

use marmota_model::Result;

use super::frame::{self, Frame};

/// Appends a packet.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    let start = frame::begin(out, 0);
    out.extend_from_slice(body);
    frame::end(out, start);
}

/// Returns the body of the first packet and the size of the packet; `None` if it is not complete.
///
/// # Errors
/// [`marmota_model::ErrorKind::Protocol`] if it is larger than allowed.
pub fn first(bytes: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>> {
    let frame = Frame::first(bytes, bytes_max)?;
    Ok(frame.map(|frame| (frame.body, frame.bytes())))
}
