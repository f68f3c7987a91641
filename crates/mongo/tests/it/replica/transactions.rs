//! Transactions, one at a time, over a server that has none: what one has
//! changed is put back if it ends without a commit.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};

use super::{message, name_of, number, refusal};

/// The engine's own collections, which are written beside transactions.
const BESIDE: [&str; 2] = ["marmota_key", "marmota_schema"];
/// What FerretDB is not told.
const OWN: [&str; 8] = [
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "readConcern",
    "$clusterTime",
    "$readPreference",
    "recoveryToken",
];
/// How long anything waits for a transaction to end.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The most documents of a command to FerretDB.
const LIST_MAX: usize = 100;

type Key = (Vec<u8>, i64);
/// Documents by their keys' bytes.
type Documents = BTreeMap<Vec<u8>, Document>;

/// See the module.
pub(super) struct Transactions {
    upstream: String,
    inside: Mutex<Inside>,
    ended: Condvar,
}

#[derive(Default)]
struct Inside {
    /// The transaction that is open.
    open: Option<Open>,
    /// Those that have ended; true for those that were committed.
    ended: HashMap<Key, bool>,
    /// How many commands are under way beside transactions.
    beside: usize,
    breaches: Vec<String>,
}

struct Open {
    key: Key,
    database: String,
    /// What collections had before it wrote to them.
    before: HashMap<String, Documents>,
}

fn key_of(command: &Document) -> Option<Key> {
    let Some(Bson::Binary(id)) = command.get_document("lsid").ok()?.get("id") else { return None };
    Some((id.bytes.clone(), command.get_i64("txnNumber").ok()?))
}

fn none_such() -> Document {
    refusal(251, "NoSuchTransaction", &["TransientTransactionError"])
}

impl Transactions {
    pub(super) fn new(upstream: &str) -> Self {
        let upstream = upstream.to_owned();
        Self { upstream, inside: Mutex::default(), ended: Condvar::new() }
    }

    pub(super) fn breaches(&self) -> Vec<String> {
        self.inside.lock().unwrap().breaches.clone()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.inside.lock().unwrap().open.is_none()
    }

    /// A command was refused: its transaction, if it is in one, has ended.
    pub(super) fn refused(&self, command: &Document) {
        let is_end = matches!(name_of(command), "commitTransaction" | "abortTransaction");
        if !is_end && let Some(key) = key_of(command).filter(|_| command.contains_key("autocommit"))
        {
            self.end(&key, false);
        }
    }

    /// Carries out a command.
    pub(super) fn answer(
        &self,
        command: &Document,
        server: &mut TcpStream,
    ) -> io::Result<Document> {
        match (name_of(command), key_of(command)) {
            ("endSessions", _) => Ok(doc! { "ok": 1.0 }),
            (_, Some(key)) if command.contains_key("autocommit") => {
                self.check(command, &key);
                match name_of(command) {
                    "commitTransaction" => Ok(self.commit(&key)),
                    "abortTransaction" => Ok(self.abort(&key)),
                    _ => self.within(command, &key, server),
                }
            }
            (name, _) => {
                let target = command.get_str(name).unwrap_or_default();
                let waits = !BESIDE.contains(&target) && name != "buildInfo" && name != "ping";
                if waits {
                    self.begin_beside();
                }
                let answer = pass(server, command);
                if waits {
                    self.inside.lock().unwrap().beside -= 1;
                    self.ended.notify_all();
                }
                answer
            }
        }
    }

    /// Waits for the end of the transaction that is open.
    fn begin_beside(&self) {
        let inside = self.inside.lock().unwrap();
        let waited = self.ended.wait_timeout_while(inside, WAIT_MAX, |it| it.open.is_some());
        waited.unwrap().0.beside += 1;
    }

    /// Keeps what breaks the protocol's rules for a command of a transaction.
    fn check(&self, command: &Document, key: &Key) {
        let mut inside = self.inside.lock().unwrap();
        let is_known = inside.open.as_ref().is_some_and(|open| open.key == *key)
            || inside.ended.contains_key(key);
        let name = name_of(command);
        let is_end = matches!(name, "commitTransaction" | "abortTransaction");
        let starts = command.get_bool("startTransaction").is_ok_and(|it| it);
        let level = command.get_document("readConcern").and_then(|it| it.get_str("level"));
        let concern = command.get_document("writeConcern");
        let majority =
            concern.as_ref().is_ok_and(|it| it.get_str("w").is_ok_and(|w| w == "majority"));
        let mut breach = |is: bool, what: &str| {
            if is {
                inside.breaches.push(format!("{what}: {command}"));
            }
        };
        breach(command.get_bool("autocommit").ok() != Some(false), "autocommit is not false");
        breach(starts == (is_known || is_end), "startTransaction is for the first command alone");
        breach(!starts && command.contains_key("readConcern"), "a readConcern behind the first");
        breach(starts && level.ok() != Some("snapshot"), "the first asks for no snapshot");
        breach(!is_end && concern.is_ok(), "a writeConcern inside");
        breach(is_end && !majority, "an end without the majority");
        breach(is_end && command.get_str("$db").ok() != Some("admin"), "an end not to admin");
        breach(name == "count", "a count inside, which servers refuse");
    }

    /// A command in a transaction.
    fn within(
        &self,
        command: &Document,
        key: &Key,
        server: &mut TcpStream,
    ) -> io::Result<Document> {
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let mut inside = self.inside.lock().unwrap();
        if inside.ended.contains_key(key) {
            return Ok(none_such());
        }
        if inside.open.as_ref().is_none_or(|open| open.key != *key) {
            if !command.contains_key("startTransaction") {
                return Ok(none_such());
            }
            let busy = |it: &mut Inside| it.open.is_some() || it.beside > 0;
            let (waited, out) = self.ended.wait_timeout_while(inside, WAIT_MAX, busy).unwrap();
            if out.timed_out() {
                return Ok(refusal(24, "LockTimeout", &["TransientTransactionError"]));
            }
            inside = waited;
            inside.open = Some(Open { key: key.clone(), database, before: HashMap::new() });
        }
        let name = name_of(command);
        let target = command.get_str(name).unwrap_or_default();
        if matches!(name, "insert" | "update" | "delete" | "findAndModify")
            && let Some(open) = &mut inside.open
            && !open.before.contains_key(target)
        {
            let before = self.documents(&open.database, target)?;
            open.before.insert(target.to_owned(), before);
        }
        drop(inside);
        let answer = match pass(server, command) {
            Ok(answer) => answer,
            // FerretDB has gone, and a server would have forgotten it as well.
            Err(error) => {
                let mut inside = self.inside.lock().unwrap();
                inside.open = None;
                inside.ended.insert(key.clone(), false);
                self.ended.notify_all();
                return Err(error);
            }
        };
        if number(&answer, "ok") != 1 || answer.contains_key("writeErrors") {
            self.end(key, false);
        }
        Ok(answer)
    }

    fn commit(&self, key: &Key) -> Document {
        self.end(key, true);
        match self.inside.lock().unwrap().ended.get(key) {
            Some(true) => doc! { "ok": 1.0 },
            _ => none_such(),
        }
    }

    fn abort(&self, key: &Key) -> Document {
        match self.end(key, false) {
            true => doc! { "ok": 1.0 },
            false => none_such(),
        }
    }

    /// Ends a transaction, if it is open.
    fn end(&self, key: &Key, commits: bool) -> bool {
        let mut inside = self.inside.lock().unwrap();
        let Some(open) = inside.open.take_if(|open| open.key == *key) else { return false };
        inside.ended.insert(open.key, commits);
        if !commits {
            for (collection, before) in open.before {
                self.put_back(&open.database, &collection, &before).unwrap();
            }
        }
        self.ended.notify_all();
        true
    }

    /// All documents of a collection.
    fn documents(&self, database: &str, collection: &str) -> io::Result<Documents> {
        let mut server = TcpStream::connect(&self.upstream)?;
        let mut documents = Documents::new();
        let find = doc! { "find": collection, "batchSize": 1_000_000, "$db": database };
        let (mut answer, mut batch) = (pass(&mut server, &find)?, "firstBatch");
        while let Ok(cursor) = answer.get_document("cursor") {
            for document in cursor.get_array(batch).into_iter().flatten() {
                let Some(document) = document.as_document() else { continue };
                documents.insert(id_of(document), document.clone());
            }
            let id = number(cursor, "id");
            if id == 0 {
                return Ok(documents);
            }
            let more = doc! { "getMore": id, "collection": collection, "$db": database };
            (answer, batch) = (pass(&mut server, &more)?, "nextBatch");
        }
        Err(io::Error::other(answer.to_string()))
    }

    /// Has a collection be as it was.
    fn put_back(&self, database: &str, collection: &str, before: &Documents) -> io::Result<()> {
        let now = self.documents(database, collection)?;
        let mut server = TcpStream::connect(&self.upstream)?;
        let changed = now.iter().filter(|(id, document)| before.get(*id) != Some(*document));
        let gone: Vec<Bson> =
            changed.filter_map(|(_, document)| document.get("_id").cloned()).collect();
        for ids in gone.chunks(LIST_MAX) {
            let deletes = vec![doc! { "q": { "_id": { "$in": ids } }, "limit": 0 }];
            let command = doc! { "delete": collection, "deletes": deletes, "$db": database };
            pass(&mut server, &command)?;
        }
        let missing = before.iter().filter(|(id, document)| now.get(*id) != Some(*document));
        let missing: Vec<Bson> = missing.map(|(_, document)| document.clone().into()).collect();
        for documents in missing.chunks(LIST_MAX) {
            let command = doc! { "insert": collection, "documents": documents, "$db": database };
            let answer = pass(&mut server, &command)?;
            if answer.contains_key("writeErrors") {
                return Err(io::Error::other(answer.to_string()));
            }
        }
        Ok(())
    }
}

fn id_of(document: &Document) -> Vec<u8> {
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    doc! { "": id }.to_vec().unwrap_or_default()
}

/// Has FerretDB carry out a command.
fn pass(server: &mut TcpStream, command: &Document) -> io::Result<Document> {
    let mut command = command.clone();
    for name in OWN {
        command.remove(name);
    }
    message::write(server, &command, 0)?;
    Ok(message::read(server)?.body)
}
