//! Packets of any protocol on a connection that has given up HTTP, as
//! [`crate::Channel`] sends and takes them; for the server's side.

use marmota_model::Result;

use super::frame::{self, Frame};

/// Appends a packet.
pub fn put(out: &mut Vec<u8>, body: &[u8]) {
    let start = frame::begin(out, 0);
    out.extend_from_slice(body);
    frame::end(out, start);
}

/// The body of the first packet and how many bytes the packet takes; none if it
/// has not come whole.
///
/// # Errors
/// [`marmota_model::ErrorKind::Protocol`] for one of more bytes than allowed.
pub fn first(bytes: &[u8], bytes_max: usize) -> Result<Option<(&[u8], usize)>> {
    let frame = Frame::first(bytes, bytes_max)?;
    Ok(frame.map(|frame| (frame.body, frame.bytes())))
}
