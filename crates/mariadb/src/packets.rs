//! Packets of the server, taken from the bytes that were read.

use std::io;

use crate::request::{HEAD, PACKET_MAX};

/// The bytes that are read at once, at least.
const READ_BYTES: usize = 16 << 10;
/// A larger buffer is freed when it is empty.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// The bytes that were read from a connection and not yet used.
#[derive(Default)]
pub(crate) struct Packets {
    read: Vec<u8>,
    /// What was read ends here.
    end: usize,
    /// What was used ends here.
    at: usize,
    /// The parts of a payload that is longer than a packet.
    joined: Vec<u8>,
    is_joined: bool,
}

impl Packets {
    /// Returns room for further bytes. [`Self::add`] adds those that were read into it.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.read.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        if self.end == 0 && self.read.len() > KEPT_BYTES_MAX {
            self.read = Vec::new();
        }
        let wanted = match self.length() {
            Some(length) => (HEAD + length).max(self.end + 1),
            None => self.end + HEAD,
        };
        if self.read.len() < wanted {
            self.read.resize(wanted.max(READ_BYTES), 0);
        }
        &mut self.read[self.end..]
    }

    /// Adds the bytes that were read into the room.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.read.len());
    }

    /// Returns the next payload, if all of it was read.
    ///
    /// # Errors
    /// It is empty.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if std::mem::take(&mut self.is_joined) {
            self.joined = Vec::new();
        }
        loop {
            let Some(length) = self.length() else { return Ok(None) };
            let start = self.at + HEAD;
            if self.end - start < length {
                return Ok(None);
            }
            self.at = start + length;
            if length < PACKET_MAX && self.joined.is_empty() {
                let payload = &self.read[start..self.at];
                return if payload.is_empty() { Err(invalid()) } else { Ok(Some(payload)) };
            }
            self.joined.extend_from_slice(&self.read[start..self.at]);
            if length < PACKET_MAX {
                self.is_joined = true;
                return Ok(Some(&self.joined));
            }
        }
    }

    /// Returns the length of the next packet, if its head was read.
    fn length(&self) -> Option<usize> {
        let head = self.read.get(self.at..self.end)?.first_chunk::<HEAD>()?;
        Some(u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize)
    }
}

/// The error of a packet that the protocol does not have.
#[cold]
pub(crate) fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server sent an invalid packet")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mut packet = payload.len().to_le_bytes()[..3].to_vec();
        packet.push(0);
        packet.extend_from_slice(payload);
        packet
    }

    /// Adds bytes in pieces of a length, and returns the payloads.
    fn payloads(mut bytes: &[u8], piece: usize) -> io::Result<Vec<Vec<u8>>> {
        let (mut packets, mut found) = (Packets::default(), Vec::new());
        loop {
            while let Some(payload) = packets.next()? {
                found.push(payload.to_vec());
            }
            if bytes.is_empty() {
                return Ok(found);
            }
            let room = packets.room();
            let taken = room.len().min(piece).min(bytes.len());
            room[..taken].copy_from_slice(&bytes[..taken]);
            packets.add(taken);
            bytes = &bytes[taken..];
        }
    }

    #[test]
    fn packets_are_found_however_they_arrive() {
        let all = [vec![1], vec![2; 40_000], vec![3; 300]];
        let bytes: Vec<u8> = all.iter().flat_map(|payload| packet(payload)).collect();
        for piece in [1, 3, 5_000, 1 << 20] {
            assert_eq!(payloads(&bytes, piece).unwrap(), all, "{piece}");
        }
        assert!(payloads(&packet(&[]), 9).is_err());
    }

    #[test]
    fn a_payload_of_several_packets_is_joined() {
        let mut bytes = packet(&vec![7; PACKET_MAX]);
        bytes.extend(packet(&[]));
        bytes.extend(packet(&vec![8; PACKET_MAX]));
        bytes.extend(packet(&[9]));
        bytes.extend(packet(&[1, 2]));
        let found = payloads(&bytes, 1 << 20).unwrap();
        let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, [PACKET_MAX, PACKET_MAX + 1, 2]);
        assert_eq!((found[0][0], found[1][PACKET_MAX]), (7, 9));
    }
}
