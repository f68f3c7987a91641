//! Change streams, whose events are made by hand. Filters are not looked at:
//! a test says what would come through them.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};

use super::{name_of, number};

/// See the module.
#[derive(Default)]
pub(super) struct Streams {
    inside: Mutex<Inside>,
    told: Condvar,
}

#[derive(Default)]
struct Inside {
    events: Vec<Document>,
    /// For each cursor, how many events it has given.
    cursors: HashMap<i64, usize>,
    opened: Vec<Document>,
}

/// The first stage of a pipeline that opens a change stream.
pub(super) fn stage(command: &Document) -> Option<&Document> {
    let stages = command.get_array("pipeline").ok()?;
    stages.first()?.as_document()?.get_document("$changeStream").ok()
}

fn token(number: usize) -> Document {
    doc! { "_data": format!("82{number:08X}") }
}

fn number_of(token: &Document) -> Option<usize> {
    usize::from_str_radix(token.get_str("_data").ok()?.strip_prefix("82")?, 16).ok()
}

impl Streams {
    /// True if a command asks for more of a stream.
    pub(super) fn has(&self, command: &Document) -> bool {
        self.inside.lock().unwrap().cursors.contains_key(&number(command, "getMore"))
    }

    pub(super) fn opened(&self) -> Vec<Document> {
        self.inside.lock().unwrap().opened.clone()
    }

    pub(super) fn tell(&self, mut event: Document) {
        let mut inside = self.inside.lock().unwrap();
        event.insert("_id", token(inside.events.len() + 1));
        inside.events.push(event);
        self.told.notify_all();
    }

    pub(super) fn last_token(&self) -> Document {
        token(self.inside.lock().unwrap().events.len())
    }

    /// The answer to a command about a stream; none for any other.
    pub(super) fn answer(&self, command: &Document) -> Option<Document> {
        match name_of(command) {
            "aggregate" => self.open(command, stage(command)?),
            "getMore" => self.more(command),
            _ => None,
        }
    }

    fn open(&self, command: &Document, stage: &Document) -> Option<Document> {
        let mut inside = self.inside.lock().unwrap();
        let behind =
            stage.get_document("startAfter").or_else(|_| stage.get_document("resumeAfter"));
        let given = match behind {
            Ok(behind) => number_of(behind)?,
            Err(_) => inside.events.len(),
        };
        inside.opened.push(stage.clone());
        let id = i64::try_from(inside.opened.len()).unwrap_or(0) + 1_000_000;
        inside.cursors.insert(id, given);
        Some(answer(command, id, "firstBatch", Vec::new(), given))
    }

    fn more(&self, command: &Document) -> Option<Document> {
        let id = number(command, "getMore");
        let end =
            Instant::now() + Duration::from_millis(number(command, "maxTimeMS").unsigned_abs());
        let mut inside = self.inside.lock().unwrap();
        loop {
            let given = *inside.cursors.get(&id)?;
            let left = end.saturating_duration_since(Instant::now());
            if given < inside.events.len() || left.is_zero() {
                let events: Vec<Document> = inside.events[given..].to_vec();
                let given = inside.events.len();
                inside.cursors.insert(id, given);
                let is_over = |event: &Document| {
                    event.get_str("operationType").is_ok_and(|operation| operation == "invalidate")
                };
                let next = if events.iter().any(is_over) { 0 } else { id };
                return Some(answer(command, next, "nextBatch", events, given));
            }
            inside = self.told.wait_timeout(inside, left).unwrap().0;
        }
    }
}

fn answer(
    command: &Document,
    id: i64,
    batch: &str,
    events: Vec<Document>,
    given: usize,
) -> Document {
    let namespace = format!("{}.$cmd.aggregate", command.get_str("$db").unwrap_or("admin"));
    let events: Vec<Bson> = events.into_iter().map(Bson::from).collect();
    let cursor =
        doc! { "id": id, "ns": namespace, batch: events, "postBatchResumeToken": token(given) };
    doc! { "cursor": cursor, "ok": 1.0 }
}
