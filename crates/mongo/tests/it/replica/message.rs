//! Messages of MongoDB's protocol (OP_MSG alone), as documents.

use std::io::{self, Read, Write};

use mongodb::bson::{Bson, Document};

const OP_MSG: i32 = 2013;
/// No message is longer.
const BYTES_MAX: usize = 48_000_000;

/// A message, with the number that its answer names.
pub(super) struct Message {
    pub(super) number: i32,
    pub(super) body: Document,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn int(bytes: &[u8], at: usize) -> io::Result<i32> {
    let bytes = bytes.get(at..at + 4).ok_or_else(|| broken("a message that is too short"))?;
    Ok(i32::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

/// Reads a message, with its sequences of documents as members of its body.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Message> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    let length = usize::try_from(int(&head, 0)?).unwrap_or(0);
    if int(&head, 12)? != OP_MSG || !(21..=BYTES_MAX).contains(&length) {
        return Err(broken("no OP_MSG"));
    }
    let mut rest = vec![0; length - 16];
    stream.read_exact(&mut rest)?;
    let mut body = Document::new();
    let mut sections = &rest[4..];
    while let Some((&kind, section)) = sections.split_first() {
        let size = usize::try_from(int(section, 0)?).unwrap_or(0);
        let own = section.get(..size).ok_or_else(|| broken("a section without end"))?;
        sections = &section[size..];
        if kind == 0 {
            let members = Document::from_reader(own).map_err(io::Error::other)?;
            body.extend(members);
            continue;
        }
        let own = &own[4..];
        let end = own.iter().position(|byte| *byte == 0).ok_or_else(|| broken("no name"))?;
        let name = String::from_utf8_lossy(&own[..end]).into_owned();
        let (mut documents, mut list) = (&own[end + 1..], Vec::new());
        while !documents.is_empty() {
            list.push(Bson::from(Document::from_reader(&mut documents).map_err(io::Error::other)?));
        }
        body.insert(name, list);
    }
    Ok(Message { number: int(&head, 4)?, body })
}

/// Writes a message; `answers` is the number of the one that it is the answer to.
pub(super) fn write(stream: &mut impl Write, body: &Document, answers: i32) -> io::Result<()> {
    let body = body.to_vec().map_err(io::Error::other)?;
    let length = i32::try_from(body.len() + 21).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(body.len() + 21);
    for number in [length, 1, answers, OP_MSG, 0] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(&body);
    stream.write_all(&message)
}
